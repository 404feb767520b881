package servertest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// Nginx is a proxy.
type Nginx struct {
	Process
	Address string // 127.0.0.1:…
}

// StartNginx starts an nginx. site returns the content of its http block for a listen address.
func StartNginx(tb testing.TB, site func(address string) string) *Nginx {
	tb.Helper()
	binary := Find(tb, "", "nginx", "install nginx")
	s := &Nginx{}
	s.Process = Process{tb: tb, dir: tb.TempDir(), ready: func() bool { return listens(s.Address) }}
	s.stop = syscall.SIGTERM // SIGKILL would leave its workers
	s.command = func(address string) *exec.Cmd {
		s.Address = address
		s.write("nginx.conf", fmt.Sprintf(nginxConfiguration, s.dir, site(address)))
		return exec.Command(binary, "-e", "stderr", "-p", s.dir, "-c", filepath.Join(s.dir, "nginx.conf"))
	}
	s.launch()
	return s
}

// nginxConfiguration is like Debian's nginx.conf, with files in the test's folder. It keeps the
// user: started by root, nginx would switch to one who can't read that folder.
const nginxConfiguration = `
user root;
daemon off;
pid %[1]s/pid;
worker_processes 2;
events { worker_connections 768; }
http {
access_log off;
client_body_temp_path %[1]s/body;
proxy_temp_path %[1]s/proxy;
fastcgi_temp_path %[1]s/fastcgi;
uwsgi_temp_path %[1]s/uwsgi;
scgi_temp_path %[1]s/scgi;
%[2]s
}
`

package bundle

import (
	"archive/tar"
	"compress/gzip"
	"debug/macho"
	"encoding/binary"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// maxUnpacked bounds how much of an archive machArch unpacks, in bytes.
const maxUnpacked = 4 << 30

// machArch returns the architecture that all programs of a macOS archive run on: "universal"
// if they run on both, and "" if it can't be determined.
func machArch(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	unpacked, err := gzip.NewReader(f)
	if err != nil {
		return ""
	}
	common := []string{"aarch64", "x86_64"}
	seen := false
	for archive := tar.NewReader(io.LimitReader(unpacked, maxUnpacked)); ; {
		entry, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return ""
		}
		folder := path.Dir(path.Clean(entry.Name))
		if entry.Typeflag != tar.TypeReg || !strings.HasSuffix(folder, ".app/Contents/MacOS") || strings.Count(folder, "/") != 2 {
			continue
		}
		header := make([]byte, 512)
		n, _ := io.ReadFull(archive, header) // a shorter one is no program
		if arches := machArches(header[:n]); arches != nil {
			seen = true
			common = slices.DeleteFunc(common, func(arch string) bool { return !slices.Contains(arches, arch) })
		}
	}
	switch {
	case !seen || len(common) == 0:
		return ""
	case len(common) == 2:
		return "universal"
	}
	return common[0]
}

// machArches returns the architectures of a program by its first bytes, nil if it
// is none for macOS.
func machArches(header []byte) (arches []string) {
	if len(header) < 8 {
		return nil
	}
	name := map[macho.Cpu]string{macho.CpuAmd64: "x86_64", macho.CpuArm64: "aarch64"}
	if binary.LittleEndian.Uint32(header) == macho.Magic64 {
		return []string{name[macho.Cpu(binary.LittleEndian.Uint32(header[4:]))]}
	}
	const magicFat64 = macho.MagicFat + 1
	size := 20 // of the description of one architecture
	switch binary.BigEndian.Uint32(header) {
	case macho.MagicFat:
	case magicFat64:
		size = 32
	default:
		return nil
	}
	count := int(min(binary.BigEndian.Uint32(header[4:]), 8))
	for at := 8; count > 0 && at+4 <= len(header); count, at = count-1, at+size {
		arches = append(arches, name[macho.Cpu(binary.BigEndian.Uint32(header[at:]))])
	}
	return arches
}

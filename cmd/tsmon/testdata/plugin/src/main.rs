//! An application that updates itself with the real plugin, for TestPlugin.
//!
//! plugin ENDPOINT PUBKEY CURRENT FILE asks for an update, downloads and verifies it, and
//! installs it over FILE, the application as it lies on the disk. It prints one line. With
//! ALLOW_DOWNGRADES in the environment it has allowDowngrades. With REPORT in the
//! environment ENDPOINT is a server, whose channel stable it follows and reports to, as the
//! guide's application does.

// What the guide's application calls at its start is compiled and not called.
#[allow(dead_code)]
mod updates;

use tauri_plugin_updater::UpdaterExt;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let mut context = tauri::test::mock_context(tauri::test::noop_assets());
    context.package_info_mut().version = args[3].parse().expect("CURRENT is no version");
    context.config_mut().plugins.0.insert(
        "updater".into(),
        serde_json::json!({
            "endpoints": [args[1]], "pubkey": args[2], "requireSignedVersion": true,
            "allowDowngrades": std::env::var_os("ALLOW_DOWNGRADES").is_some(),
            "dangerousInsecureTransportProtocol": true
        }),
    );
    let app = tauri::test::mock_builder()
        .plugin(tauri_plugin_updater::Builder::new().build())
        .build(context)
        .expect("no application");
    if std::env::var_os("REPORT").is_some() {
        return println!("{}", follow(app.handle(), &args[1], &args[4]).await);
    }
    let updater = app
        .updater_builder()
        .no_proxy()
        .executable_path(&args[4])
        .build()
        .expect("no updater");
    let update = match updater.check().await {
        Err(e) => return println!("check failed: {e}"),
        Ok(None) => return println!("no update"),
        Ok(Some(update)) => update,
    };
    let bytes = match update.download(|_, _| {}, || {}).await {
        Err(e) => return println!("download failed: {e}"),
        Ok(bytes) => bytes,
    };
    match update.install(&bytes) {
        Err(e) => println!("install failed: {e}"),
        Ok(()) => println!("installed {}", update.version),
    }
}

async fn follow<R: tauri::Runtime>(app: &tauri::AppHandle<R>, server: &str, file: &str) -> String {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let updates = updates::Updates::new(app, server, "stable").expect("no place for the ID");
    updates.started().await;
    if std::env::var_os("CRASH").is_some() {
        panic!("as it was told to");
    }
    let updater = updates.updater(app).expect("no updater");
    match updates
        .update(updater.no_proxy().executable_path(file))
        .await
    {
        Err(e) => format!("update failed: {e}"),
        Ok(false) => "no update".into(),
        Ok(true) => "updated".into(),
    }
}

//! An application that updates itself with the real plugin, for TestPlugin.
//!
//! plugin ENDPOINT PUBKEY CURRENT FILE asks for an update, downloads and verifies it, and
//! installs it over FILE, the application as it lies on the disk. It prints one line. With
//! ALLOW_DOWNGRADES in the environment it has allowDowngrades.

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

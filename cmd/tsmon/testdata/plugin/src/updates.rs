//! Asks tsmon for updates, installs them, and reports what became of them.

use std::{fs, path::PathBuf, time::Duration};

use tauri::{AppHandle, Manager, Runtime};
use tauri_plugin_updater::{UpdaterBuilder, UpdaterExt};

/// The address at which `tsmon serve` is reached, and the channel of this build.
const SERVER: &str = "https://updates.example.com";
const CHANNEL: &str = "stable";

pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Looks for an update in the background and starts the application anew if there was one.
pub fn begin<R: Runtime>(app: &AppHandle<R>) {
    let app = app.clone();
    tauri::async_runtime::spawn(async move {
        match look(&app).await {
            Ok(true) => app.restart(), // or ask the user first
            Ok(false) => {}
            Err(e) => eprintln!("no update: {e}"),
        }
    });
}

async fn look<R: Runtime>(app: &AppHandle<R>) -> Result<bool, Error> {
    let updates = Updates::new(app, SERVER, CHANNEL)?;
    updates.started().await;
    updates.update(updates.updater(app)?).await
}

/// One installation, as the server knows it.
pub struct Updates {
    server: String,
    channel: String,
    id: String,
    version: String,
    crashed: PathBuf,
}

impl Updates {
    /// Reads the ID of the installation, or makes one at the first start. From now on a
    /// panic is noted for the next start.
    pub fn new<R: Runtime>(app: &AppHandle<R>, server: &str, channel: &str) -> Result<Self, Error> {
        let folder = app.path().app_local_data_dir()?;
        fs::create_dir_all(&folder)?;
        let file = folder.join("installation-id");
        let id = match fs::read_to_string(&file) {
            Ok(id) if !id.trim().is_empty() => id.trim().to_string(),
            _ => {
                let id = uuid::Uuid::new_v4().to_string();
                fs::write(&file, &id)?;
                id
            }
        };
        let updates = Self {
            server: server.into(),
            channel: channel.into(),
            id,
            version: app.package_info().version.to_string(),
            crashed: folder.join("crashed"),
        };
        let (file, version) = (updates.crashed.clone(), updates.version.clone());
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let _ = fs::write(&file, &version);
            hook(panic);
        }));
        Ok(updates)
    }

    /// An updater that asks for this installation: add a proxy or a comparator to it.
    pub fn updater<R: Runtime>(&self, app: &AppHandle<R>) -> Result<UpdaterBuilder, Error> {
        let asks = "{{target}}/{{arch}}/{{current_version}}?bundle_type={{bundle_type}}";
        let endpoint = format!("{}/updates/{}/{asks}", self.server, self.channel);
        let builder = app.updater_builder().endpoints(vec![endpoint.parse()?])?;
        Ok(builder.header("X-Tsmon-Client", &self.id)?)
    }

    /// Installs what the server offers. Returns whether there was something; on Windows the
    /// installer ends the application.
    pub async fn update(&self, updater: UpdaterBuilder) -> Result<bool, Error> {
        let Some(update) = updater.build()?.check().await? else {
            return Ok(false);
        };
        let installed = match update.download(|_, _| {}, || {}).await {
            Ok(bytes) => update.install(bytes),
            Err(e) => Err(e),
        };
        let event = if installed.is_ok() {
            "installed"
        } else {
            "failed"
        };
        self.report(&update.version, event).await;
        installed?;
        Ok(true)
    }

    /// Reports that this version runs, and that the one before has crashed.
    pub async fn started(&self) {
        if let Ok(version) = fs::read_to_string(&self.crashed) {
            let _ = fs::remove_file(&self.crashed);
            self.report(&version, "crashed").await;
        }
        self.report(&self.version, "started").await;
    }

    /// Reports an event. A report that does not arrive is no reason to stay on a version.
    async fn report(&self, version: &str, event: &str) {
        if let Err(e) = self.send(version, event).await {
            eprintln!("not reported: {e}");
        }
    }

    async fn send(&self, version: &str, event: &str) -> Result<(), Error> {
        reqwest::Client::builder()
            .timeout(Duration::from_secs(30))
            .build()?
            .post(format!("{}/updates/report", self.server))
            .header("X-Tsmon-Client", &self.id)
            .json(&serde_json::json!({
                "channel": self.channel,
                "version": version,
                "target": tauri_plugin_updater::target(),
                "event": event,
            }))
            .send()
            .await?
            .error_for_status()?;
        Ok(())
    }
}

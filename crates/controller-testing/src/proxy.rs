//! A proxy in front of the API server whose connections can die silently.

use std::path::{Path, PathBuf};

use tempfile::TempDir;
use tokio::io::{self, AsyncReadExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Forwards all traffic until it freezes.
pub struct Proxy {
    kubeconfig: PathBuf,
    freezes: watch::Sender<()>,
    _accepting: JoinSet<()>,
    _directory: TempDir,
}

impl Proxy {
    /// A proxy in front of the API server of this kubeconfig.
    pub async fn before(kubeconfig: &Path) -> Self {
        let text = std::fs::read_to_string(kubeconfig).unwrap();
        let (_, after) = text.split_once("https://").unwrap();
        let end = after.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
        let target = after[..end.unwrap_or(after.len())].to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().to_string();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, text.replace(&target, &own)).unwrap();

        let freezes = watch::Sender::new(());
        let frozen = freezes.subscribe();
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&target).await.unwrap();
                connections.spawn(pass_on(client, server, frozen.clone()));
            }
        });
        Self {
            kubeconfig: path,
            freezes,
            _accepting: accepting,
            _directory: directory,
        }
    }

    /// The kubeconfig that leads to the proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Stops all traffic on the open connections. They stay open, and what is sent on them is acknowledged, as by a
    /// load balancer in front of a dead server. New connections work.
    pub fn freeze(&self) {
        self.freezes.send_replace(());
    }
}

async fn pass_on(mut client: TcpStream, mut server: TcpStream, mut frozen: watch::Receiver<()>) {
    frozen.mark_unchanged();
    tokio::select! {
        _ = io::copy_bidirectional(&mut client, &mut server) => {}
        _ = frozen.changed() => {
            let mut lost = [0; 4096];
            while client.read(&mut lost).await.is_ok_and(|read| read > 0) {}
        }
    }
}

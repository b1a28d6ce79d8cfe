//! A client's watch.

use std::time::Duration;

use futures::StreamExt;
use http::{Request, header};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::http::{JSON, version};

/// An open watch, read event by event.
pub(crate) struct Watch {
    body: Body,
    read: Vec<u8>,
}

/// The next thing that a watch receives.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    Event(Value),
    End,
    Broken,
    Silence,
}

impl Watch {
    pub(crate) async fn open(client: &Client, uri: impl AsRef<str>) -> Self {
        Self::open_as(client, uri, JSON).await
    }

    pub(crate) async fn open_as(client: &Client, uri: impl AsRef<str>, accept: &str) -> Self {
        Self::begin(client, uri.as_ref(), accept).await.unwrap()
    }

    /// Opens a watch; the error has the code of a refusal.
    pub(crate) async fn begin(client: &Client, uri: &str, accept: &str) -> Result<Self, String> {
        let request = Request::get(uri)
            .header(header::ACCEPT, accept)
            .body(Body::empty())
            .unwrap();
        let response = client.send(request).await.unwrap();
        if response.status() != 200 {
            return Err(format!("expected a watch, found {}", response.status()));
        }
        Ok(Self {
            body: response.into_body(),
            read: Vec::new(),
        })
    }

    /// A watch of `uri` that starts after the version of `object`.
    pub(crate) async fn since(client: &Client, uri: impl AsRef<str>, object: &Value) -> Self {
        let uri = uri.as_ref();
        let and = if uri.contains('?') { '&' } else { '?' };
        let version = version(object);
        Self::open(client, format!("{uri}{and}watch=1&resourceVersion={version}")).await
    }

    /// What the watch receives within `limit`.
    pub(crate) async fn next_within(&mut self, limit: Duration) -> Next {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Next::Event(serde_json::from_slice(&line).unwrap());
            }
            let mut stream = (&mut self.body).into_data_stream();
            match timeout(limit, stream.next()).await {
                Err(_) => return Next::Silence,
                Ok(None) => return Next::End,
                Ok(Some(Err(_))) => return Next::Broken,
                Ok(Some(Ok(bytes))) => self.read.extend(bytes),
            }
        }
    }

    /// The next event; fails if none comes within 10 s.
    pub(crate) async fn event(&mut self) -> Value {
        match self.next_within(Duration::from_secs(10)).await {
            Next::Event(event) => event,
            other => panic!("expected an event, got {other:?}"),
        }
    }

    /// The next event as `TYPE name`.
    pub(crate) async fn line(&mut self) -> String {
        let event = self.event().await;
        format!(
            "{} {}",
            event["type"].as_str().unwrap(),
            event["object"]["metadata"]["name"].as_str().unwrap_or("-")
        )
    }

    /// Fails unless this is the next event.
    pub(crate) async fn tells(&mut self, kind: &str, object: &Value) {
        assert_eq!(self.event().await, json!({ "type": kind, "object": object }));
    }

    /// Fails unless these are the next events, each as `TYPE name`.
    pub(crate) async fn tells_of(&mut self, lines: &[&str]) {
        for line in lines {
            assert_eq!(self.line().await, *line);
        }
    }

    /// True if nothing comes for 300 ms; pending events take milliseconds.
    pub(crate) async fn is_silent(&mut self) -> bool {
        self.next_within(Duration::from_millis(300)).await == Next::Silence
    }
}

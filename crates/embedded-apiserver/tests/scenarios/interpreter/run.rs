//! Plays a scenario of a transcript on a server.

use std::collections::BTreeMap;
use std::time::Duration;

use embedded_apiserver::{from_protobuf, to_protobuf};
use futures::future::BoxFuture;
use http::header;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::check::{Check, version};
use super::parse::VERBS;
use super::paths::uri;
use super::script::{Act, Answer, Request, Rows, Script, Step, Transcript};
use super::value::{Expr, Names, equals};
use crate::http::{self as raw, Next, Watch, send};
use crate::protobuf::fetch;
use crate::twin::{Ground, PATIENCE};

struct Play<'a> {
    file: &'a str,
    ground: Ground,
    names: Names,
    watches: BTreeMap<String, Watch>,
}

/// Fails with the place in the file, the request, and what was expected and found.
pub(super) async fn play(
    file: &str,
    transcript: &Transcript,
    script: &Script,
    ground: Ground,
) -> Result<(), String> {
    let mut play = Play {
        file,
        ground,
        names: Names::new(),
        watches: BTreeMap::new(),
    };
    play.steps(&transcript.lets).await?;
    play.steps(&script.steps).await
}

impl Play<'_> {
    fn steps<'a>(&'a mut self, steps: &'a [Step]) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            for step in steps {
                let done = self.step(&step.act).await;
                done.map_err(|why| {
                    let here = format!("{}:{}: {}", self.file, step.line, step.text);
                    match &step.act {
                        // The step that failed has said where.
                        Act::ForEach { .. } if why.starts_with(self.file) => why,
                        Act::Do(..) if why.starts_with(self.file) => format!("{why}\nin {here}"),
                        _ => format!("{here}\n{why}"),
                    }
                })?;
            }
            Ok(())
        })
    }

    async fn step(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::Let(name, value) => {
                let value = value.value(&self.names)?;
                self.names.insert(name.clone(), value);
            }
            Act::Ask(request, Some(expected)) => self.ask(request, expected).await?,
            Act::Ask(_, None) => {}
            Act::Watch { request, since, name } => {
                let watch = self.watch(request, since.as_ref()).await?;
                self.watches.insert(name.clone(), watch);
            }
            Act::Tells { watch, kind, checks } => {
                let mut event = match self.next(watch, 10).await? {
                    Next::Event(event) => event,
                    other => return Err(format!("expected an event, found {other:?}")),
                };
                let (found, object) = (event["type"].take(), event["object"].take());
                let whole = json!({ "type": null, "object": null });
                if found != kind.value(&self.names)? || event != whole {
                    return Err(format!("found {found} of {object:#}"));
                }
                self.holds(checks, 200, &object)
                    .map_err(|why| format!("{why}\nin {object:#}"))?;
            }
            Act::IsSilent(watch) => {
                let watch = self.watches.get_mut(watch).ok_or("this watch is not open")?;
                let next = watch.next_within(Duration::from_millis(300)).await;
                if next != Next::Silence {
                    return Err(format!("found {next:?}"));
                }
            }
            Act::Ends(watch) => {
                let next = self.next(watch, 5).await?;
                if next != Next::End {
                    return Err(format!("found {next:?}"));
                }
            }
            Act::CatchUp(path) => {
                let collection = uri(&path.text(&self.names)?)?;
                raw::catch_up(&self.ground.admin, &collection).await;
            }
            Act::Check(value, checks) => {
                let value = value.value(&self.names)?;
                self.holds(checks, 0, &value)?;
            }
            Act::Do(values, procedure) => {
                let Value::Object(values) = values.value(&self.names)? else {
                    return Err("the values have no names".to_owned());
                };
                self.names.extend(values);
                self.steps(&procedure.steps).await?;
            }
            Act::ForEach { names, rows, steps } => self.for_each(names, rows, steps).await?,
        }
        Ok(())
    }

    async fn next(&mut self, watch: &str, seconds: u64) -> Result<Next, String> {
        let watch = self.watches.get_mut(watch).ok_or("this watch is not open")?;
        Ok(watch.next_within(Duration::from_secs(seconds)).await)
    }

    async fn for_each(&mut self, names: &[String], rows: &Rows, steps: &[Step]) -> Result<(), String> {
        let rows: Vec<Vec<Value>> = match rows {
            Rows::List(list) => match list.value(&self.names)? {
                Value::Array(items) if !items.is_empty() => {
                    items.into_iter().map(|item| vec![item]).collect()
                }
                other => return Err(format!("{other} is no list, or an empty one")),
            },
            Rows::Table(rows) => {
                let row = |row: &Vec<Expr>| row.iter().map(|cell| cell.value(&self.names)).collect();
                rows.iter().map(row).collect::<Result<_, _>>()?
            }
        };
        for row in rows {
            self.names.extend(names.iter().cloned().zip(row.clone()));
            let done = self.steps(steps).await;
            done.map_err(|why| {
                let said = names
                    .iter()
                    .zip(&row)
                    .map(|(name, value)| format!("${name} = {value}"));
                format!("{why}\nwhere {}", said.collect::<Vec<_>>().join(", "))
            })?;
        }
        Ok(())
    }

    fn holds(&mut self, checks: &[Check], code: u16, found: &Value) -> Result<(), String> {
        checks
            .iter()
            .try_for_each(|check| check.holds(code, found, &mut self.names))
    }

    fn client(&self, user: &Expr) -> Result<kube::Client, String> {
        Ok(match user.text(&self.names)?.as_str() {
            "admin" => self.ground.admin.clone(),
            "alice" => self.ground.alice.clone(),
            "anonymous" => self.ground.anonymous.clone(),
            "stranger" => self.ground.stranger.clone(),
            other => return Err(format!("{other} is no user")),
        })
    }

    async fn watch(&mut self, request: &Request, since: Option<&Expr>) -> Result<Watch, String> {
        let mut path = request.path.text(&self.names)?;
        let mut more = Vec::new();
        if !path.contains("watch") {
            more.push("watch=1".to_owned());
        }
        if let Some(since) = since {
            more.push(format!(
                "resourceVersion={}",
                version(&since.value(&self.names)?)?
            ));
        }
        for parameter in more {
            path.push(if path.contains('?') { '&' } else { '?' });
            path.push_str(&parameter);
        }
        let accept = match request.headers.get("Accept") {
            Some(accept) => accept.text(&self.names)?,
            None => raw::JSON.to_owned(),
        };
        Watch::begin(&self.client(&request.user)?, &uri(&path)?, &accept).await
    }

    async fn ask(&mut self, request: &Request, expected: &Answer) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let answer = self.send(request).await?;
            let mut held = self.is_as_expected(&answer, expected);
            if held.is_ok() && expected.in_protobuf {
                held = self.is_in_protobuf(request, &answer).await;
            }
            let Err(why) = held else {
                return Ok(());
            };
            if !expected.until || started.elapsed() > PATIENCE {
                let (line, text) = (expected.line, &expected.text);
                let shown = format!("{} {:#}", answer.code, answer.body);
                let shown: String = shown.chars().take(3000).collect();
                return Err(format!("{}:{line}: {text}\n{why}\nanswer: {shown}", self.file));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn is_as_expected(&mut self, answer: &raw::Answer, expected: &Answer) -> Result<(), String> {
        let codes = expected.codes.iter().map(|code| code.value(&self.names));
        let codes = codes.collect::<Result<Vec<_>, _>>()?;
        if !codes.contains(&json!(answer.code)) {
            return Err(format!("expected {}, found {}", json!(codes), answer.code));
        }
        for (name, value) in &expected.headers {
            let found = answer.headers.get(name).and_then(|value| value.to_str().ok());
            // Null means absent.
            let (wanted, text) = (value.value(&self.names)?, value.text(&self.names)?);
            if found != Some(&*text).filter(|_| !wanted.is_null()) {
                return Err(format!("expected {name}: {wanted}, found {found:?}"));
            }
        }
        self.holds(&expected.checks, answer.code, &answer.body)
    }

    /// Fails unless the request has the same answer in protobuf, in the encoding of the embedded server.
    async fn is_in_protobuf(&mut self, request: &Request, answer: &raw::Answer) -> Result<(), String> {
        const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
        let accept = match request.headers.get("Accept") {
            Some(accept) => accept.text(&self.names)?,
            None => raw::JSON.to_owned(),
        };
        let preferred = accept.replace(raw::JSON, PROTOBUF);
        let path = uri(&request.path.text(&self.names)?)?;
        let found = fetch(
            &self.client(&request.user)?,
            &path,
            &format!("{preferred},{accept}"),
        )
        .await;
        let kind = json!([answer.code, PROTOBUF]);
        equals(
            &kind,
            &json!([found.code.as_u16(), found.media]),
            "code and media type in protobuf",
        )?;
        let read = from_protobuf(&found.body).ok_or("expected protobuf")?;
        let mut body = answer.body.clone();
        if body.get("items").is_some() {
            // The server's own writes in between change the version of a list.
            body["metadata"]["resourceVersion"] = read["metadata"]["resourceVersion"].clone();
        }
        equals(&body, &read, "").map_err(|why| format!("in protobuf: {why}"))?;
        let written = to_protobuf(&body).ok_or("it has no form in protobuf")?;
        let [written, sent] = [written, found.body].map(|bytes| bytes.escape_ascii().to_string());
        if written == sent {
            return Ok(());
        }
        Err(format!("expected the bytes {written}\nfound {sent}"))
    }

    async fn send(&mut self, request: &Request) -> Result<raw::Answer, String> {
        let verb = request.method.text(&self.names)?;
        let (method, media) = match verb.as_str() {
            "MERGE" => ("PATCH", raw::MERGE),
            "STRATEGIC" => ("PATCH", raw::STRATEGIC),
            "JSONPATCH" => ("PATCH", raw::JSON_PATCH),
            "APPLY" => ("PATCH", raw::APPLY),
            "BREW" => ("BREW", raw::JSON),
            other if VERBS.contains(&other) => (other, raw::JSON),
            other => return Err(format!("{other} is unknown")),
        };
        let path = uri(&request.path.text(&self.names)?)?;
        let mut headers = BTreeMap::from([
            ("Content-Type", media.to_owned()),
            ("Accept", raw::JSON.to_owned()),
        ]);
        if matches!(method, "GET" | "HEAD") {
            headers.remove("Content-Type");
        }
        for (name, value) in &request.headers {
            headers.insert(name, value.text(&self.names)?);
        }
        let mut builder = http::Request::builder().method(method).uri(&path);
        for (name, value) in &headers {
            let name = header::HeaderName::try_from(*name).map_err(|error| error.to_string())?;
            builder = builder.header(name, value);
        }
        let body = match &request.body {
            None => Vec::new(),
            Some(body) => match body.value(&self.names)? {
                // What is quoted is sent as it stands.
                Value::String(text) => text.into_bytes(),
                Value::Null => Vec::new(),
                body => body.to_string().into_bytes(),
            },
        };
        Ok(send(&self.client(&request.user)?, builder, body).await)
    }
}

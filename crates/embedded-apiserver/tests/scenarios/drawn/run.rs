//! Sends a sequence to a server, with a watch of each kind open.

use http::{Request, header};
use kube::Client;
use serde_json::{Value, json};

use super::compare::{Line, plain};
use super::draw::{Ask, NAMESPACE, Step};
use super::kinds::{KINDS, Kind};
use crate::http::{Answer, NAMESPACES, create, get, named, send, version};
use crate::watch::Watch;

/// The name of the object that ends each watch.
const LAST: &str = "last";

/// What the server answers to each step, and then what each watch was told, in plain form.
pub(super) async fn run(client: &Client, namespace: &str, steps: &[Step]) -> Vec<Line> {
    create(client, NAMESPACES, named(namespace)).await;
    let mut watches = Vec::new();
    for kind in KINDS
        .iter()
        .filter(|kind| steps.iter().any(|step| is_about(step, kind)))
    {
        let collection = kind.collection(namespace);
        let list = get(client, &collection).await.body;
        let watch = Watch::open(
            client,
            format!("{collection}?watch=1&resourceVersion={}", version(&list)),
        )
        .await;
        watches.push((kind, watch));
    }
    let mut answers: Vec<Option<Answer>> = Vec::new();
    for step in steps {
        answers.push(match step {
            Step::Ask(ask) => Some(send_one(client, namespace, ask, &answers).await),
            Step::None => None,
        });
    }
    let mut lines = Vec::new();
    for (number, answer) in answers.into_iter().enumerate() {
        let Some(Answer { code, body, .. }) = answer else {
            continue;
        };
        lines.push((format!("answer {number}: {code}"), body));
    }
    for (kind, mut watch) in watches {
        create(client, &kind.collection(namespace), last(kind)).await;
        loop {
            let event = watch.event().await;
            if event["object"]["metadata"]["name"] == LAST {
                break;
            }
            let told = event["type"].as_str().unwrap();
            lines.push((
                format!("watch of {}: {told}", kind.plural),
                event["object"].clone(),
            ));
        }
    }
    plain(lines)
}

fn is_about(step: &Step, kind: &Kind) -> bool {
    let part = format!("/{}", kind.plural);
    matches!(step, Step::Ask(ask) if ask.uri.contains(&part))
}

/// A valid object of a kind.
fn last(kind: &Kind) -> Value {
    let container = json!({"name": "c", "image": "i"});
    let mut object = match kind.name {
        "Pod" => json!({"spec": {"containers": [container]}}),
        "ResourceClaimTemplate" => json!({"spec": {"spec": {"devices": {}}}}),
        "ResourceClaim" => {
            json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}})
        }
        _ => json!({}),
    };
    object["metadata"] = json!({"name": LAST});
    object
}

async fn send_one(client: &Client, namespace: &str, ask: &Ask, answers: &[Option<Answer>]) -> Answer {
    let mut body = ask.body.clone();
    fill(&mut body, answers);
    let request = Request::builder()
        .method(ask.method)
        .uri(ask.uri.replace(NAMESPACE, namespace));
    let request = request.header(header::CONTENT_TYPE, ask.content_type);
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    send(client, request, body).await
}

/// Puts in what the steps were answered; `0` for a step without such an answer.
fn fill(value: &mut Value, answers: &[Option<Answer>]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, answers)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill(field, answers)),
        Value::String(text) => {
            let Some((field, step)) = text
                .strip_prefix('«')
                .and_then(|text| text.strip_suffix('»')?.split_once(' '))
            else {
                return;
            };
            let field = if field == "uid" { "uid" } else { "resourceVersion" };
            let answer = answers[step.parse::<usize>().unwrap()].as_ref();
            let object = answer
                .map(|answer| &answer.body)
                .filter(|body| body["items"].is_null());
            let told = object.and_then(|object| object["metadata"][field].as_str());
            let nobody = if field == "uid" { "nobody's" } else { "9999999" };
            told.unwrap_or(nobody).clone_into(text);
        }
        _ => {}
    }
}

//! Reads transcripts; the language is described at the head of `mod.rs`.

use std::sync::Arc;

use super::check::checks;
use super::lines::{Line, lines};
use super::names::Scope;
use super::paths;
use super::script::{Act, Answer, Procedure, Request, Rows, Script, Step, Transcript};
use super::tokens::{Token, changed, single, tokens, whole};
use super::value::Expr;
use crate::twin::Setting;

type Procedures = [Arc<Procedure>];

const USERS: [&str; 4] = ["admin", "alice", "anonymous", "stranger"];
pub(super) const VERBS: [&str; 12] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "MERGE",
    "STRATEGIC",
    "JSONPATCH",
    "APPLY",
    "OPTIONS",
    "TRACE",
];

/// Reads a transcript; the error begins with the number of the line.
pub(super) fn parse(text: &str) -> Result<Transcript, String> {
    let mut transcript = Transcript {
        setting: Setting::Plain,
        lets: Vec::new(),
        scenarios: Vec::new(),
    };
    let all = lines(text)?;
    let heading = |line: &Line| line.text.starts_with("## ");
    let first = all.iter().position(heading).unwrap_or(all.len());
    let mut procedures = Vec::new();
    let mut rest = &all[..first];
    while let Some((line, after)) = rest.split_first() {
        let at = |why: String| format!("{}: {why}", line.number);
        rest = after;
        if let Some(name) = line.text.strip_prefix("setting ") {
            transcript.setting = setting(name).ok_or_else(|| at(format!("{name} is no setting")))?;
        } else if let Some(head) = line.text.strip_prefix("to ") {
            let mut words = head
                .split([' ', ','])
                .filter(|word| !word.is_empty())
                .map(str::to_owned);
            let name = words.next().ok_or_else(|| at("to NAME PARAMETERS".to_owned()))?;
            let (parameters, steps) = (words.collect(), block(line, &mut rest, &procedures)?);
            procedures.push(Arc::new(Procedure {
                line: line.number,
                name,
                parameters,
                steps,
            }));
        } else {
            transcript.lets.push(let_of(line)?);
        }
    }
    let mut file = Scope::default();
    file.enter(&transcript.lets)?;
    for script in all[first..].chunk_by(|_, next| !heading(next)) {
        let name = script[0].text[3..].to_owned();
        if transcript.scenarios.iter().any(|other| other.name == name) {
            return Err(format!("{}: there are two of this name", script[0].number));
        }
        let mut rest = &script[1..];
        let since = match rest.first().and_then(|line| line.text.strip_prefix("since 1.")) {
            Some(minor) => {
                rest = &rest[1..];
                minor
                    .parse()
                    .map_err(|_| format!("{}: no version", script[0].number + 1))?
            }
            None => 0,
        };
        let steps = steps(&mut rest, &procedures)?;
        if let Some(line) = rest.first() {
            return Err(format!("{}: this ends nothing", line.number));
        }
        let mut scope = file.below();
        scope.enter(&steps)?;
        scope.is_used_up()?;
        file.used_by(&scope);
        transcript.scenarios.push(Script { name, since, steps });
    }
    file.is_used_up()?;
    // Each step that does it holds it, too.
    match procedures
        .iter()
        .find(|procedure| Arc::strong_count(procedure) == 1)
    {
        Some(unused) => Err(format!("{}: {} is never done", unused.line, unused.name)),
        None => Ok(transcript),
    }
}

fn setting(name: &str) -> Option<Setting> {
    Some(match name {
        "pod groups" => Setting::PodGroups,
        "coarse claim status" => Setting::CoarseClaimStatus,
        _ => return None,
    })
}

fn let_of(line: &Line) -> Result<Step, String> {
    match steps(&mut std::slice::from_ref(line), &[])?.pop() {
        Some(step) if matches!(step.act, Act::Let(..)) => Ok(step),
        _ => Err(format!(
            "{}: only `let`, `to` and `setting` come before the scenarios",
            line.number
        )),
    }
}

/// Reads steps, and the `end` after them.
fn block(line: &Line, rest: &mut &[Line], procedures: &Procedures) -> Result<Vec<Step>, String> {
    let steps = steps(rest, procedures)?;
    let (_, after) = rest
        .split_first()
        .ok_or_else(|| format!("{}: this has no end", line.number))?;
    *rest = after;
    Ok(steps)
}

/// Reads steps up to the end of the scenario or block.
fn steps(rest: &mut &[Line], procedures: &Procedures) -> Result<Vec<Step>, String> {
    let mut found: Vec<Step> = Vec::new();
    while let Some(line) = rest.first().filter(|line| line.text != "end") {
        *rest = &rest[1..];
        let at = |why: String| format!("{}: {why}", line.number);
        let open = found
            .last_mut()
            .filter(|step| matches!(step.act, Act::Ask(_, None)));
        match (open, answer(line).map_err(at)?) {
            (
                Some(Step {
                    act: Act::Ask(_, answer),
                    ..
                }),
                Some(expected),
            ) => *answer = Some(expected),
            (Some(_), _) => return Err(at("the line before expects no code".to_owned())),
            (None, Some(_)) => return Err(at("this answers no request".to_owned())),
            (None, None) => {
                let act = if let Some(head) = line.text.strip_prefix("for each ") {
                    let (names, rows) = rows(head, line).map_err(at)?;
                    let steps = block(line, rest, procedures)?;
                    Act::ForEach { names, rows, steps }
                } else if let Some(call) = line.text.strip_prefix("do ") {
                    call_of(call, procedures).map_err(at)?
                } else {
                    act(line).map_err(at)?
                };
                found.push(Step {
                    line: line.number,
                    text: line.text.clone(),
                    act,
                });
            }
        }
    }
    match found.last() {
        Some(Step {
            line,
            act: Act::Ask(_, None),
            ..
        }) => Err(format!("{line}: this expects no code")),
        _ => Ok(found),
    }
}

fn rows(head: &str, line: &Line) -> Result<(Vec<String>, Rows), String> {
    let (names, rows) = match head.split_once(" in ") {
        Some((name, list)) => (vec![name.to_owned()], Rows::List(whole(list)?)),
        None => (
            head.split(',').map(|name| name.trim().to_owned()).collect(),
            Rows::Table(line.table.clone()),
        ),
    };
    match &rows {
        Rows::Table(rows) if rows.is_empty() || rows.iter().any(|row| row.len() != names.len()) => {
            Err(format!("each row must have {} cells", names.len()))
        }
        _ => Ok((names, rows)),
    }
}

fn call_of(call: &str, procedures: &Procedures) -> Result<Act, String> {
    let (name, values) = call.split_once(' ').unwrap_or((call, "{}"));
    let procedure = procedures.iter().find(|procedure| procedure.name == name);
    let procedure = procedure.ok_or_else(|| format!("{name} is not said"))?;
    let values = whole(values)?;
    let given: Vec<&String> = values
        .base
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys())
        .collect();
    let mut parameters: Vec<&String> = procedure.parameters.iter().collect();
    parameters.sort_unstable();
    if given != parameters {
        return Err(format!("{name} takes {parameters:?}, not {given:?}"));
    }
    Ok(Act::Do(values, procedure.clone()))
}

fn act(line: &Line) -> Result<Act, String> {
    let (word, rest) = line.text.split_once(' ').unwrap_or((&line.text, ""));
    match word {
        "let" => {
            let (name, value) = rest.split_once(" = ").ok_or("let NAME = VALUE")?;
            return Ok(Act::Let(name.to_owned(), whole(value)?));
        }
        "check" => {
            let found = tokens(rest)?;
            let mut tokens = &found[..];
            let value = single(&mut tokens)?;
            return Ok(Act::Check(value, checks(tokens)?));
        }
        "catch" => {
            let collection = rest.strip_prefix("up ").ok_or("catch up COLLECTION")?;
            return Ok(Act::CatchUp(path(collection)?));
        }
        _ => {}
    }
    match rest {
        "is silent" => return Ok(Act::IsSilent(word.to_owned())),
        "ends" => return Ok(Act::Ends(word.to_owned())),
        _ => {}
    }
    if let Some(event) = rest.strip_prefix("tells ") {
        let (kind, checked) = event.split_once(' ').unwrap_or((event, ""));
        return Ok(Act::Tells {
            watch: word.to_owned(),
            kind: Expr::of(kind),
            checks: checks(&tokens(checked)?)?,
        });
    }
    request(line)
}

fn path(text: &str) -> Result<Expr, String> {
    let path = Expr::of(text);
    // With names in it, the path is known only when it is asked for.
    if path.names().is_empty() {
        paths::uri(text)?;
    }
    Ok(path)
}

fn request(line: &Line) -> Result<Act, String> {
    let mut text = &*line.text;
    let mut user = "admin";
    if let Some((name, rest)) = text.strip_prefix("as ").and_then(|rest| rest.split_once(' ')) {
        (user, text) = (name, rest);
    }
    let (method, rest) = text.split_once(' ').unwrap_or((text, ""));
    let (method, rest) = match method {
        "SEND" => rest.split_once(' ').ok_or("SEND METHOD PATH")?,
        _ if VERBS.contains(&method) || method == "WATCH" => (method, rest),
        _ => return Err(format!("{method} is unknown")),
    };
    if !USERS.contains(&user) && !user.starts_with('$') {
        return Err(format!("{user} is no user"));
    }
    let (to, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let found = tokens(rest)?;
    let mut request = Request {
        user: Expr::of(user),
        method: Expr::of(method),
        path: path(to)?,
        headers: line.headers.clone(),
        body: None,
    };
    let mut tokens = &found[..];
    if method != "WATCH" {
        if !tokens.is_empty() {
            request.body = Some(changed(&mut tokens)?);
        }
        return if tokens.is_empty() {
            Ok(Act::Ask(request, None))
        } else {
            Err("more than a body".to_owned())
        };
    }
    let mut since = None;
    if let [Token::Word(word), rest @ ..] = tokens
        && word == "since"
    {
        tokens = rest;
        since = Some(single(&mut tokens)?);
    }
    match tokens {
        [Token::Word(word), Token::Word(name)] if word == "as" => Ok(Act::Watch {
            request,
            since,
            name: name.clone(),
        }),
        _ => Err("WATCH PATH since $VALUE as NAME".to_owned()),
    }
}

/// What a line expects of the answer to the request before it.
fn answer(line: &Line) -> Result<Option<Answer>, String> {
    let (until, text) = match line.text.strip_prefix("until ") {
        Some(rest) => (true, rest),
        None => (false, &*line.text),
    };
    if !text.starts_with(|first: char| first.is_ascii_digit() || first == '$') {
        return Ok(None);
    }
    let (text, in_protobuf) = match text.strip_suffix("the same in protobuf") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let found = tokens(text)?;
    let mut tokens = &found[..];
    let mut codes = vec![single(&mut &tokens[..1])?];
    tokens = &tokens[1..];
    while let [Token::Word(word), rest @ ..] = tokens
        && word == "or"
    {
        codes.push(single(&mut rest.get(..1).unwrap_or_default())?);
        tokens = rest.get(1..).unwrap_or_default();
    }
    Ok(Some(Answer {
        line: line.number,
        text: line.text.clone(),
        until,
        codes,
        headers: line.headers.clone(),
        checks: checks(tokens)?,
        in_protobuf,
    }))
}

//! Every name is known where it is used, and is used.

use std::collections::{BTreeMap, BTreeSet};

use super::check::Check;
use super::script::{Act, Rows, Step};
use super::value::Expr;

/// The names so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    names: BTreeMap<String, Name>,
    /// Shared names that were used: a scenario may have another value of the same name later.
    shared: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Name {
    line: usize,
    is_used: bool,
    /// It is one of the file, not of the scenario.
    is_shared: bool,
}

impl Name {
    fn is_used_up(&self, text: &str) -> Result<(), String> {
        match self {
            Self {
                line,
                is_used: false,
                is_shared: false,
            } => Err(format!("{line}: ${text} is never used")),
            _ => Ok(()),
        }
    }
}

impl Scope {
    /// The scope of a scenario of this file.
    pub(super) fn below(&self) -> Self {
        let mut below = self.clone();
        for name in below.names.values_mut() {
            (name.is_used, name.is_shared) = (false, true);
        }
        below
    }

    /// Notes what a scenario used.
    pub(super) fn used_by(&mut self, scenario: &Self) {
        for (text, name) in &mut self.names {
            name.is_used |= scenario.shared.contains(text);
        }
    }

    pub(super) fn is_used_up(&self) -> Result<(), String> {
        self.names
            .iter()
            .try_for_each(|(text, name)| name.is_used_up(text))
    }

    fn define(&mut self, line: usize, name: &str) -> Result<(), String> {
        let new = Name {
            line,
            is_used: false,
            is_shared: false,
        };
        self.names
            .insert(name.to_owned(), new)
            .map_or(Ok(()), |before| before.is_used_up(name))
    }

    fn uses(&mut self, line: usize, names: Vec<String>) -> Result<(), String> {
        for name in names {
            let found = self
                .names
                .get_mut(&name)
                .ok_or_else(|| format!("{line}: ${name} is unknown"))?;
            found.is_used = true;
            if found.is_shared {
                self.shared.insert(name);
            }
        }
        Ok(())
    }

    fn of<'a>(&mut self, line: usize, exprs: impl IntoIterator<Item = &'a Expr>) -> Result<(), String> {
        exprs
            .into_iter()
            .try_for_each(|expr| self.uses(line, expr.names()))
    }

    fn checks(&mut self, line: usize, checks: &[Check]) -> Result<(), String> {
        for check in checks {
            self.uses(line, check.uses())?;
        }
        for check in checks {
            if let Check::Bind(name) = check {
                self.define(line, name)?;
            }
        }
        Ok(())
    }

    pub(super) fn enter(&mut self, steps: &[Step]) -> Result<(), String> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let line = step.line;
        match &step.act {
            Act::Let(name, value) => {
                self.of(line, [value])?;
                self.define(line, name)
            }
            Act::Ask(request, answer) => {
                self.of(line, [&request.user, &request.method, &request.path])?;
                self.of(line, request.headers.values().chain(&request.body))?;
                let Some(answer) = answer else { return Ok(()) };
                self.of(answer.line, answer.codes.iter().chain(answer.headers.values()))?;
                self.checks(answer.line, &answer.checks)
            }
            Act::Watch { request, since, name } => {
                self.of(line, [&request.user, &request.path])?;
                self.of(line, request.headers.values().chain(since))?;
                self.define(line, name)
            }
            Act::Tells { watch, kind, checks } => {
                self.uses(line, vec![watch.clone()])?;
                self.of(line, [kind])?;
                self.checks(line, checks)
            }
            Act::IsSilent(watch) | Act::Ends(watch) => self.uses(line, vec![watch.clone()]),
            Act::CatchUp(path) => self.of(line, [path]),
            Act::Check(value, checks) => {
                self.of(line, [value])?;
                self.checks(line, checks)
            }
            Act::Do(values, procedure) => {
                self.of(line, [values])?;
                procedure
                    .parameters
                    .iter()
                    .try_for_each(|name| self.define(line, name))?;
                let mut inside = self.clone();
                inside.enter(&procedure.steps)?;
                self.shared.append(&mut inside.shared);
                // What a procedure names need not be used by all who call it.
                for (text, name) in inside.names {
                    let before = self.names.get(&text);
                    let is_old = before.is_some_and(|before| before.line == name.line && !before.is_shared);
                    let is_shared = name.is_shared || !is_old;
                    self.names.insert(text, Name { is_shared, ..name });
                }
                Ok(())
            }
            Act::ForEach { names, rows, steps } => {
                match rows {
                    Rows::Table(rows) => self.of(line, rows.iter().flatten())?,
                    Rows::List(list) => self.of(line, [list])?,
                }
                names.iter().try_for_each(|name| self.define(line, name))?;
                self.enter(steps)
            }
        }
    }
}

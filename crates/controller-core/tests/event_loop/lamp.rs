//! What the toy keeps of a lamp, whom a change of one wakes, and how a write is phrased as a request.

use std::convert::Infallible;

use controller_core::api::{Call, Verb};
use controller_core::controller::{self, Context, Description, Object, Request, Watches};
use controller_core::informer::{Change, DecodeError, Identity, Interner, View, Wire};
use controller_core::meta::ObjectKey;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::api::{Patch, PatchParams};
use kube::core::Request as Http;
use serde::Deserialize;
use serde_json::json;

use crate::toy::Dimmer;

/// What the store keeps of a lamp, which is a `ConfigMap`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lamp {
    pub(crate) key: ObjectKey,
    pub(crate) wanted: u8,
    pub(crate) shines: u8,
}

/// A write: from now on the lamp shines so.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dim {
    pub(crate) lamp: ObjectKey,
    pub(crate) shines: u8,
}

/// What is decoded of a lamp.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LampWire {
    data: Brightness,
}

#[derive(Clone, Debug, Deserialize)]
struct Brightness {
    wanted: String,
    shines: String,
}

impl View for Lamp {
    type Index = Infallible;

    fn key(&self) -> &ObjectKey {
        &self.key
    }

    fn index(&self, _: &mut Vec<Infallible>) {}
}

impl Wire for LampWire {
    type View = Lamp;

    fn into_view(self, lamp: Identity, _: &Interner) -> Result<Lamp, DecodeError> {
        let number = |text: &str| {
            let error = |_| DecodeError::Unrepresentable(format!("{text:?} is no brightness"));
            text.parse().map_err(error)
        };
        Ok(Lamp {
            key: lamp.key,
            wanted: number(&self.data.wanted)?,
            shines: number(&self.data.shines)?,
        })
    }
}

impl Watches<Lamp> for Dimmer {
    fn changed(&self, cx: &mut Context<'_, Self>, change: Change<'_, Lamp>) {
        let (Change::Added(lamp) | Change::Updated { new: lamp, .. } | Change::Deleted(lamp)) = change;
        cx.out.wake(lamp.key.clone());
    }
}

impl Dim {
    /// What the write makes of the lamp.
    pub(crate) fn effect(&self) -> impl Fn(&Lamp) -> Lamp + Send + Sync + 'static {
        let shines = self.shines;
        move |lamp| Lamp {
            shines,
            ..lamp.clone()
        }
    }
}

impl controller::Write for Dim {
    fn request(&self) -> Request {
        let patch = json!({"data": {"shines": self.shines.to_string()}});
        let params = PatchParams {
            field_manager: Some("dimmer".to_owned()),
            ..PatchParams::default()
        };
        let configmaps = Http::new(ConfigMap::url_path(&(), self.lamp.namespace.as_deref()));
        Request {
            call: Call {
                verb: Verb::Patch,
                resource: "configmaps",
                target: self.lamp.to_string(),
            },
            http: configmaps.patch(&self.lamp.name, &params, &Patch::Merge(&patch)),
            answer_within: None,
        }
    }

    fn object(&self) -> Object {
        Object {
            resource: "configmaps",
            key: self.lamp.clone(),
        }
    }

    fn describe(&self) -> Description {
        Description {
            action: "dim",
            text: format!("brightness set to {}", self.shines),
            is_planned: true,
        }
    }
}

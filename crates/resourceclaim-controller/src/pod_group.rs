//! The versions of `PodGroup` that API servers serve.

use k8s_openapi::api::scheduling::v1beta1::PodGroup;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{NamespaceResourceScope, Resource as _};

/// A version of the API of `PodGroup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupVersion {
    /// Since Kubernetes 1.37.
    V1Beta1,
    /// Kubernetes 1.36 only.
    V1Alpha2,
}

/// `PodGroup` of [`GroupVersion::V1Alpha2`], as far as requests need it.
#[derive(Clone, Debug, Default)]
pub struct AlphaPodGroup(ObjectMeta);

impl GroupVersion {
    /// All known versions.
    pub const NEWEST_FIRST: [Self; 2] = [Self::V1Beta1, Self::V1Alpha2];

    pub const fn api_version(self) -> &'static str {
        match self {
            Self::V1Beta1 => PodGroup::API_VERSION,
            Self::V1Alpha2 => AlphaPodGroup::API_VERSION,
        }
    }
}

impl k8s_openapi::Resource for AlphaPodGroup {
    type Scope = NamespaceResourceScope;

    const API_VERSION: &'static str = "scheduling.k8s.io/v1alpha2";
    const GROUP: &'static str = PodGroup::GROUP;
    const KIND: &'static str = PodGroup::KIND;
    const URL_PATH_SEGMENT: &'static str = PodGroup::URL_PATH_SEGMENT;
    const VERSION: &'static str = "v1alpha2";
}

impl k8s_openapi::Metadata for AlphaPodGroup {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.0
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0
    }
}

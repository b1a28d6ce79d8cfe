//! Credentials of the tests: tokens, the key that signs service account tokens, kubeconfig files, clients.

use std::path::Path;

use http::HeaderValue;
use http::header::USER_AGENT;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use pem::Pem;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;

use super::Error;

/// DER prefix that makes the 65 bytes of a P-256 point a `SubjectPublicKeyInfo` (RFC 5480).
const P256_PUBLIC_KEY_INFO: &[u8] =
    b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";

/// A user of the API server's static token file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenUser {
    /// User name in RBAC rules and in the audit log; no commas.
    pub name: String,
    /// Groups in addition to `system:authenticated`.
    pub groups: Vec<String>,
    /// Bearer token.
    pub token: String,
}

impl TokenUser {
    /// The user `name` with a random token and no groups.
    pub fn new(name: &str) -> Self {
        let secret: u128 = rand::random();
        Self {
            name: name.to_owned(),
            groups: Vec::new(),
            token: format!("{name}-{secret:032x}"),
        }
    }

    /// A user with all permissions.
    pub(super) fn admin() -> Self {
        Self {
            groups: vec!["system:masters".to_owned()],
            ..Self::new("admin")
        }
    }

    /// The user's line of `--token-auth-file`: token, name, uid, groups.
    pub(super) fn token_line(&self) -> String {
        let Self { name, groups, token } = self;
        format!("{token},{name},{name},\"{}\"\n", groups.join(","))
    }
}

/// A new pair of keys (P-256, PEM) for service account tokens: the signing and the verifying one.
pub(super) fn signing_keys() -> Result<(String, String), Error> {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    let private =
        EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|_unspecified| Error::SigningKey)?;
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, private.as_ref(), &random)
        .map_err(|_rejected| Error::SigningKey)?;
    let public = [P256_PUBLIC_KEY_INFO, pair.public_key().as_ref()].concat();
    Ok((
        pem::encode(&Pem::new("PRIVATE KEY", private.as_ref())),
        pem::encode(&Pem::new("PUBLIC KEY", public)),
    ))
}

/// A kubeconfig (JSON is YAML) for the API server on loopback at `port`.
pub(super) fn kubeconfig(port: u16, certificate_authority: &Path, token: &str) -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": {
            "server": format!("https://127.0.0.1:{port}"),
            "certificate-authority": certificate_authority,
        }}],
        "users": [{ "name": "test", "user": { "token": token }}],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" }}],
        "current-context": "test",
    })
    .to_string()
}

/// A client that sends every request at once: no client-side limit, no retries, no proxy.
pub async fn client(kubeconfig: &Path) -> Result<Client, Error> {
    client_as(kubeconfig, None).await
}

/// [`client`] with a `User-Agent`; the part before the first `/` is its field manager.
pub(super) async fn client_as(kubeconfig: &Path, user_agent: Option<HeaderValue>) -> Result<Client, Error> {
    let failed = |source| Error::Kubeconfig {
        path: kubeconfig.to_owned(),
        source: Box::new(source),
    };
    let file = Kubeconfig::read_from(kubeconfig).map_err(failed)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(failed)?;
    config.default_retry = false;
    config.proxy_url = None;
    config.headers.extend(user_agent.map(|name| (USER_AGENT, name)));
    Client::try_from(config).map_err(|source| Error::request("build a client", source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_stay_one_field_of_the_token_file() {
        let user = TokenUser {
            name: "alice".to_owned(),
            groups: vec!["dev".to_owned(), "ops".to_owned()],
            token: "secret".to_owned(),
        };
        assert_eq!(user.token_line(), "secret,alice,alice,\"dev,ops\"\n");
    }

    #[tokio::test]
    async fn a_client_can_be_built_from_a_kubeconfig_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let authority = dir.path().join("ca.crt");
        let path = dir.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig(7, &authority, "secret")).unwrap();
        let Err(error) = client(&path).await else {
            panic!("built a client without a certificate authority")
        };
        assert_eq!(error.to_string(), format!("read kubeconfig {}", path.display()));
    }
}

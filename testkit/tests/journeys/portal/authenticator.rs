//! An authenticator in software (WebAuthn), and what a browser sends of it.

use anyhow::{Context, Result, anyhow};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Flags of the authenticator: the user is present, the user is verified, and there is a new passkey.
const PRESENT: u8 = 0x01;
const VERIFIED: u8 = 0x04;
const CREATED: u8 = 0x40;

/// It has one passkey, with a key for ES256.
pub(super) struct Authenticator {
    random: SystemRandom,
    key: EcdsaKeyPair,
    id: [u8; 16],
    /// The handle of the user, as the portal gave it.
    pub(super) handle: Value,
    pub(super) origin: String,
    pub(super) host: String,
    pub(super) is_verified: bool,
    /// The signatures so far.
    pub(super) counter: u32,
}

impl Authenticator {
    /// At the site with this origin.
    pub(super) fn new(origin: &str) -> Result<Self> {
        let (random, mut id) = (SystemRandom::new(), [0; 16]);
        random.fill(&mut id).map_err(|_| anyhow!("no random bytes"))?;
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(|_| anyhow!("no key"))?;
        let key = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).map_err(|_| anyhow!("no key"))?;
        let host = url::Url::parse(origin)?.host_str().context("a host")?.to_owned();
        Ok(Self {
            random,
            key,
            id,
            handle: Value::Null,
            origin: origin.to_owned(),
            host,
            is_verified: true,
            counter: 0,
        })
    }

    /// Makes the passkey.
    pub(super) fn create(&mut self, options: &Value) -> Result<String> {
        self.handle = options["user"]["id"].clone();
        let point = self.key.public_key().as_ref();
        let (x, y) = point.get(1..).context("a point")?.split_at(32);
        // {1: 2, 3: -7, -1: 1, -2: x, -3: y} in CBOR.
        let key = [&b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20"[..], x, b"\x22\x58\x20", y].concat();
        let data = self.data(CREATED, &[&[0; 16][..], &[0, 16], &self.id, &key].concat());
        // {"fmt": "none", "attStmt": {}, "authData": data} in CBOR.
        let head = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58";
        let attestation = [&head[..], &[u8::try_from(data.len())?], &data].concat();
        let response = json!({
            "clientDataJSON": encoded(self.client_data("webauthn.create", options).as_bytes()),
            "attestationObject": encoded(&attestation),
            "transports": ["internal"],
        });
        Ok(self.credential(&response))
    }

    /// Signs in.
    pub(super) fn sign(&mut self, options: &Value) -> Result<String> {
        self.counter += 1;
        let (data, client_data) = (self.data(0, &[]), self.client_data("webauthn.get", options));
        let hash: [u8; 32] = Sha256::digest(client_data.as_bytes()).into();
        let signature = self.key.sign(&self.random, &[&data[..], &hash].concat());
        let response = json!({
            "clientDataJSON": encoded(client_data.as_bytes()),
            "authenticatorData": encoded(&data),
            "signature": encoded(signature.map_err(|_| anyhow!("no signature"))?.as_ref()),
            "userHandle": self.handle,
        });
        Ok(self.credential(&response))
    }

    fn data(&self, flags: u8, created: &[u8]) -> Vec<u8> {
        let host: [u8; 32] = Sha256::digest(self.host.as_bytes()).into();
        let flags = flags | PRESENT | if self.is_verified { VERIFIED } else { 0 };
        [&host[..], &[flags], &self.counter.to_be_bytes(), created].concat()
    }

    fn client_data(&self, kind: &str, options: &Value) -> String {
        let data = json!({
            "type": kind, "challenge": options["challenge"], "origin": self.origin, "crossOrigin": false,
        });
        data.to_string()
    }

    fn credential(&self, response: &Value) -> String {
        let id = encoded(&self.id);
        let credential = json!({
            "id": id, "rawId": id, "type": "public-key", "authenticatorAttachment": "platform",
            "clientExtensionResults": {}, "response": response,
        });
        credential.to_string()
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

//! The worked examples of the documents are correct: the signature of a request and the verification of a webhook.

use std::fs;

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use testkit::{TempDir, integration_examples::run};
use tokio::process::Command;

use crate::{
    page::{Libraries, root},
    skipped,
};

/// The text of each code block of a document without marks.
fn texts(document: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(root().join("docs").join(document))?;
    let inside = text.split("```").skip(1).step_by(2);
    Ok(inside.filter_map(|block| Some(block.split_once('\n')?.1.trim_end().to_owned())).collect())
}

#[test]
fn the_signature_that_the_document_shows_is_the_one_of_what_it_signs() -> Result<()> {
    let texts = texts("api.md")?;
    let first = texts.iter().position(|text| text.starts_with("\"@method\"")).context("no signature base")?;
    let [base, headers, body] = &texts[first..first + 3] else { anyhow::bail!("expected three consecutive blocks") };
    let digest = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)));
    ensure!(base.contains(&digest) && headers.contains(&digest), "the digest of the body must be {digest}");
    let mut mac = Hmac::<Sha256>::new_from_slice(b"svc_ss_example")?;
    mac.update(base.as_bytes());
    let signature = format!("Signature: sig1=:{}:", STANDARD.encode(mac.finalize().into_bytes()));
    ensure!(headers.ends_with(&signature), "the signature of the base must be {signature}");
    let (_, input) = base.split_once("\"@signature-params\": ").context("no @signature-params")?;
    ensure!(headers.contains(&format!("Signature-Input: sig1={input}\n")), "Signature-Input is not what was signed");
    Ok(())
}

/// Signs with the public library and verifies with the function of the document.
const CHECK: &str = r#"
import datetime

from standardwebhooks.webhooks import Webhook
from verify import verify

SECRET, OTHERS = "whsec_q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=", "whsec_AAvEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA=="
now = datetime.datetime.now(datetime.timezone.utc)


def headers(secret, at):
    signature = "v1,AAAA " + Webhook(secret).sign("evt_1", at, "{}")
    return {"webhook-id": "evt_1", "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": signature}


assert verify(SECRET, headers(SECRET, now), b"{}")
assert not verify(SECRET, headers(SECRET, now), b"{ }")
assert not verify(SECRET, headers(OTHERS, now), b"{}")
assert not verify(SECRET, headers(SECRET, now - datetime.timedelta(hours=1)), b"{}")
print("verified")
"#;

#[tokio::test]
async fn the_documented_verification_agrees_with_the_library() -> Result<()> {
    let Some(libraries) = Libraries::install_once().await? else { return skipped("python3 with venv, node or npm") };
    let function =
        texts("webhooks.md")?.into_iter().find(|text| text.contains("def verify")).context("no def verify")?;
    let folder = TempDir::new()?;
    fs::write(folder.path().join("verify.py"), function)?;
    fs::write(folder.path().join("check.py"), CHECK)?;
    let mut command = Command::new(libraries.python("webhooks").context("no venv")?);
    command.arg("check.py").current_dir(folder.path());
    ensure!(run(command).await?.contains("verified"));
    Ok(())
}

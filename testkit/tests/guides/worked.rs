//! What documents reckon out beforehand is right: the signature of a request, and the verification of a webhook.

use std::fs;

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use testkit::{TempDir, examples::run};
use tokio::process::Command;

use crate::{
    page::{Libraries, root},
    skipped,
};

/// The text of each block of a document, in which blocks have no marks.
fn texts(document: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(root().join("docs").join(document))?;
    let inside = text.split("```").skip(1).step_by(2);
    Ok(inside.filter_map(|block| Some(block.split_once('\n')?.1.trim_end().to_owned())).collect())
}

#[test]
fn the_signature_that_the_document_shows_is_the_one_of_what_it_signs() -> Result<()> {
    let texts = texts("signing.md")?;
    let [base, headers, body] = texts.as_slice() else { anyhow::bail!("{} blocks", texts.len()) };
    let digest = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)));
    ensure!(base.contains(&digest) && headers.contains(&digest), "the body has the digest {digest}");
    let mut mac = Hmac::<Sha256>::new_from_slice(b"svc_ss_example")?;
    mac.update(base.as_bytes());
    let signature = format!("Signature: sig1=:{}:", STANDARD.encode(mac.finalize().into_bytes()));
    ensure!(headers.ends_with(&signature), "the base has {signature}");
    let (_, input) = base.split_once("\"@signature-params\": ").context("what was signed")?;
    ensure!(headers.contains(&format!("Signature-Input: sig1={input}\n")), "what was signed is sent");
    Ok(())
}

/// Signs with the public library and asks the function of the document.
const ASK: &str = r#"
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
print("asked")
"#;

#[tokio::test]
async fn the_verification_without_a_library_agrees_with_the_library() -> Result<()> {
    let Some(libraries) = Libraries::ready().await? else { return skipped("python3 with venv, node or npm") };
    let function = texts("webhooks.md")?.into_iter().find(|text| text.contains("def verify")).context("a function")?;
    let folder = TempDir::new()?;
    fs::write(folder.path().join("verify.py"), function)?;
    fs::write(folder.path().join("ask.py"), ASK)?;
    let mut command = Command::new(libraries.python("webhooks").context("the library")?);
    command.arg("ask.py").current_dir(folder.path());
    ensure!(run(command).await?.contains("asked"));
    Ok(())
}

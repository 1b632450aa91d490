//! What the person at the terminal sees.

use std::{
    fs::File,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::state::Description;

const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Writes one line of our own. A reader who has gone away is no reason to stop.
pub(super) fn say(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Shows what is appended to the log at `path`, each line behind the name of its process, until this program ends.
pub(super) fn follow(name: &'static str, colour: u8, path: PathBuf) {
    thread::spawn(move || {
        let Ok(mut file) = File::open(&path) else { return };
        let mut rest = Vec::new();
        loop {
            if file.read_to_end(&mut rest).is_err() {
                return;
            }
            show_whole_lines(name, colour, &mut rest);
            thread::sleep(LOOK_EVERY);
        }
    });
}

/// Leaves in `bytes` the beginning of a line that is still being written.
fn show_whole_lines(name: &str, colour: u8, bytes: &mut Vec<u8>) {
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return };
    let whole: Vec<u8> = bytes.drain(..=end).collect();
    let mut output = io::stdout().lock();
    for line in String::from_utf8_lossy(&whole).lines() {
        let _ = if output.is_terminal() {
            writeln!(output, "\x1b[{colour}m{name:>9}\x1b[0m {line}")
        } else {
            writeln!(output, "{name:>9} {line}")
        };
    }
    let _ = output.flush();
}

/// Addresses, keys and the first request; then the word that says all is up.
pub(super) fn welcome(description: &Description, path: &Path) {
    say("");
    say(&format!("api        {}", description.api_url));
    say(&format!("gateway    {}", description.gateway_url));
    for (name, url) in &description.metrics {
        say(&format!("metrics    {url}  ({name})"));
    }
    say(&format!("postgres   {}", description.database_url));
    say(&format!("redis      {}", description.redis_url));
    for (name, account) in &description.accounts {
        say("");
        say(&format!("account    {name}: {}, {} mode", account.id, account.mode));
        say(&format!("           secret key       {}", account.secret_key));
        say(&format!("           publishable key  {}", account.publishable_key));
        if let Some(signing_secret) = &account.signing_secret {
            say(&format!("           signing secret   {signing_secret}"));
        }
    }
    let of_gateway = std::iter::once(&description.gateway_account).chain(description.gateway_accounts.values());
    say("");
    for account in of_gateway {
        say(&format!("gateway    {:<21} api_key {}", account.username, account.api_key));
    }
    say("");
    say(&format!("All of this is in {} too.", path.display()));
    if let Some(account) = description.accounts.get("mock") {
        say("The first payment:");
        say("");
        say(&first_request(&description.api_url, &account.secret_key));
        say("");
    }
    say("ready");
    let _ = io::stdout().flush();
}

fn first_request(api_url: &str, secret_key: &str) -> String {
    let body = r#"{"amount":1250,"currency":"USD","paymentToken":"tok_ok"}"#;
    format!(
        "curl -s {api_url}/v1/payments -H 'Authorization: Bearer {secret_key}' \
         -H 'Content-Type: application/json' -d '{body}'"
    )
}

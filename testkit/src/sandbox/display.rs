//! Terminal output.

use std::{
    fs::File,
    io::{self, IsTerminal, Read, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::state::Description;

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Writes one line. A closed standard output is not an error.
pub(super) fn print_line(line: &str) {
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Prints lines appended to the log at `path`, each prefixed with the process name, until this program ends.
pub(super) fn follow_log(name: &'static str, colour: u8, path: PathBuf) {
    thread::spawn(move || {
        let Ok(mut file) = File::open(&path) else { return };
        let mut unprinted = Vec::new();
        loop {
            if file.read_to_end(&mut unprinted).is_err() {
                return;
            }
            print_complete_lines(name, colour, &mut unprinted);
            thread::sleep(POLL_INTERVAL);
        }
    });
}

/// Prints the complete lines and leaves the beginning of an unfinished one in `bytes`.
fn print_complete_lines(name: &str, colour: u8, bytes: &mut Vec<u8>) {
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return };
    let complete_lines: Vec<u8> = bytes.drain(..=end).collect();
    let mut output = io::stdout().lock();
    for line in String::from_utf8_lossy(&complete_lines).lines() {
        let _ = if output.is_terminal() {
            writeln!(output, "\x1b[{colour}m{name:>9}\x1b[0m {line}")
        } else {
            writeln!(output, "{name:>9} {line}")
        };
    }
    let _ = output.flush();
}

/// Prints addresses, keys and a first request, then `ready`.
pub(super) fn print_summary(description: &Description, path: &Path) {
    print_line("");
    print_line(&format!("api        {}", description.api_url));
    print_line(&format!("gateway    {}", description.gateway_url));
    let (portal, user) = (&description.portal_url, &description.portal_user);
    print_line(&format!("portal     {portal}  ({}, password {})", user.email, user.password));
    for (name, url) in &description.metrics {
        print_line(&format!("metrics    {url}  ({name})"));
    }
    print_line(&format!("postgres   {}", description.database_url));
    print_line(&format!("redis      {}", description.redis_url));
    for (name, account) in &description.accounts {
        print_line("");
        print_line(&format!("account    {name}: {}, {} mode", account.id, account.mode));
        print_line(&format!("           secret key       {}", account.secret_key));
        print_line(&format!("           publishable key  {}", account.publishable_key));
        if let Some(signing_secret) = &account.signing_secret {
            print_line(&format!("           signing secret   {signing_secret}"));
        }
    }
    let gateway_accounts = std::iter::once(&description.gateway_account).chain(description.gateway_accounts.values());
    print_line("");
    for account in gateway_accounts {
        print_line(&format!("gateway    {:<21} api_key {}", account.username, account.api_key));
    }
    print_line("");
    print_line(&format!("This information is also in {}.", path.display()));
    if let Some(account) = description.accounts.get("mock") {
        print_line("To make a first payment:");
        print_line("");
        print_line(&first_request(&description.api_url, &account.secret_key));
        print_line("");
    }
    print_line("ready");
    let _ = io::stdout().flush();
}

fn first_request(api_url: &str, secret_key: &str) -> String {
    let body = r#"{"amount":1250,"currency":"USD","paymentToken":"tok_ok"}"#;
    format!(
        "curl -s {api_url}/v1/payments -H 'Authorization: Bearer {secret_key}' \
         -H 'Content-Type: application/json' -d '{body}'"
    )
}

//! Card numbers, security codes and keys: sent by every input through every operation, then searched for in logs,
//! responses, e-mails, metrics and tables, in clear, as bytes and in base64.

use std::path::PathBuf;
use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use testkit::Cluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{CHALLENGED, DECLINED, Form, GOOD, World, encrypt, wait_until};

/// Codes that do not occur by chance.
const CODE: &str = "9081";
const OTHER_CODE: &str = "7593";
const PLAIN: [&str; 4] = ["4532015112830366", "5105105105105100", "378734493671000", "6011000990139424"];
const WALLET: &str = "4111111111111111";

/// Sends requests and collects the responses.
struct Shop {
    world: World,
    responses: Vec<String>,
}

impl Shop {
    async fn post(&mut self, script: &str, form: &Form, code: &str) -> serde_json::Value {
        let reply = self.world.post(script, &all_receipts(form.clone())).await;
        reply.is(code);
        self.responses.push(reply.0.to_string());
        reply.0
    }

    async fn post_public(&mut self, path: &str, form: &Form, code: &str) -> serde_json::Value {
        let reply = self.world.post_public(path, form).await;
        reply.is(code);
        self.responses.push(reply.0.to_string());
        reply.0
    }

    fn of(&self, reply: &serde_json::Value, amount: &str) -> Form {
        let id = reply["transaction_id"].as_str().expect("an id");
        self.world.keys().with("transaction_id", id).with("amount", amount)
    }

    /// A charge with the security code that is searched for.
    fn charge(&self, number: &str) -> Form {
        self.world.charge(number).with("cvv", CODE)
    }

    /// A card as sent by a browser.
    fn field(&self, number: &str) -> Form {
        let form = self.world.browser().with("creditcard_number", number).with("cvv", OTHER_CODE);
        form.with("expire_month", "12").with("expire_year", "2034")
    }
}

fn all_receipts(form: Form) -> Form {
    form.with("email_receipt", "Y").with("emailReceiptDBAEmail", "Y")
}

/// Sends a card number by every input.
async fn every_input(shop: &mut Shop, number: &str) {
    shop.post("sale.php", &shop.charge(number), "00").await;
    let sealed = encrypt(&shop.world.account.secret_key, number);
    shop.post("sale.php", &shop.charge(&sealed).with("use_secret_key", "Y"), "00").await;
    let proxied = shop.world.browser().with("creditcard_number", number);
    let proxied = shop.post_public("proxynization", &proxied, "A01").await;
    shop.post("sale.php", &shop.charge(proxied["proxy_number"].as_str().expect("a number")), "00").await;
    let stored = shop.post("add_card.php", &shop.charge(number), "00").await;
    let by_token = |shop: &Shop, made: &serde_json::Value| {
        let form = shop.charge(number).with("card_token", made["card_token"].as_str().expect("a token"));
        ["creditcard_number", "expire_month", "expire_year", "cvv"].into_iter().fold(form, Form::without)
    };
    shop.post("sale.php", &by_token(shop, &stored), "00").await;
    // One of three tokens is charged, one is stored, and one is not used.
    let charged = shop.post_public("field_token", &shop.field(number), "00").await;
    shop.post("authorize.php", &by_token(shop, &charged), "00").await;
    let changed = shop.post_public("field_token", &shop.field(number), "00").await;
    shop.post("add_card.php", &by_token(shop, &changed), "00").await;
    shop.post_public("field_token", &shop.field(number), "00").await;
}

/// Sends a card number through every operation and into every kind of error.
async fn every_operation(shop: &mut Shop, number: &str) {
    let authorized = shop.post("authorize.php", &shop.charge(number), "00").await;
    shop.post("capture.php", &shop.of(&authorized, "5.00"), "00").await;
    shop.post("refund.php", &shop.of(&authorized, "1.00"), "00").await;
    shop.post("refund.php", &shop.of(&authorized, "9.00"), "14").await;
    let sold = shop.post("sale.php", &shop.charge(number), "00").await;
    shop.post("void.php", &shop.of(&sold, "1.00"), "00").await;
    shop.post("unreference_refund.php", &shop.charge(number), "00").await;
    shop.post("report.php", &shop.of(&sold, "1").with("start_date", "2020-01-01").with("end_date", "2099-12-31"), "00")
        .await;
    let wrong = [
        ("sale.php", "amount", "x", "07"),
        ("sale.php", "memo", "\u{0}", "A1"),
        ("sale.php", "expire_year", "2020", "03"),
        ("authorize.php", "amount", "99999.00", "17"),
        ("sale.php", "3ds_redirect_url", number, "A1"),
        ("sale.php", "username", number, "01"),
        ("sale.php", "card_token", number, "02"),
        ("sale.php", "use_secret_key", number, "A1"),
        ("unreference_refund.php", "api_key", number, "09"),
        ("report.php", "start_date", number, "23"),
    ];
    for (script, name, value, code) in wrong {
        shop.post(script, &shop.charge(number).with(name, value), code).await;
    }
    let mistyped = format!("{}{}", &number[..number.len() - 1], (number.as_bytes()[number.len() - 1] - b'0' + 1) % 10);
    shop.post("sale.php", &shop.charge(&mistyped), "02").await;
    shop.post_public("field_token", &shop.field(&mistyped), "02").await;
    shop.post_public("proxynization", &shop.world.browser().with("creditcard_number", &mistyped), "02").await;
}

/// Declines, challenges, inquiries, wallets.
async fn the_test_cards(shop: &mut Shop) {
    shop.post("sale.php", &shop.charge(DECLINED), "F").await;
    shop.post("account_validation.php", &shop.charge(GOOD), "00").await;
    for decision in ["confirm", "refuse", "nothing"] {
        let form = shop.charge(CHALLENGED).with("3ds_redirect_url", "https://shop.example/");
        let reply = shop.post("sale.php", &form, "00").await;
        let page = reply["redirect_url"].as_str().expect("a page");
        let shown = shop.world.http().get(page).send().await.expect("a response");
        let decided = shop.world.raw(page, &Form::empty().with("decision", decision)).await;
        shop.responses.push(format!("{:?}", decided.headers()));
        for response in [shown, decided] {
            shop.responses.push(response.text().await.expect("text"));
        }
    }
    let request = shop.world.browser().with("amount", "2.00").with("currency", "USD");
    let signed = shop.post_public("wallet_token", &request.with("creditcard_number", WALLET), "00").await;
    let token = signed["signature_token"].as_str().expect("a token");
    shop.post("wallet_sale.php", &shop.charge(GOOD).with("signature_token", token), "00").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_never_logged_returned_mailed_or_stored_in_clear() {
    let world = World::of(Cluster::builder().gateway(1).env("RUST_LOG", "trace"), &[]).await;
    let set = ["account", "set", "--username", "shop", "--contact-email", "books@shop.example"];
    world.cluster.run_gateway(&set).await.expect("set");
    let mut shop = Shop { world, responses: Vec::new() };
    for number in PLAIN {
        every_input(&mut shop, number).await;
        every_operation(&mut shop, number).await;
    }
    the_test_cards(&mut shop).await;
    let Shop { mut world, responses } = shop;
    let pending = "SELECT count(*) FROM gateway.receipts WHERE due_at IS NOT NULL";
    wait_until("the last receipt", async || (world.number(pending).await == 0).then_some(())).await;
    world.execute("UPDATE gateway.accounts SET secret_key_sealed = substring(secret_key_sealed FROM 6)").await;
    let reencrypted = world.cluster.run_gateway(&["reencrypt"]).await.expect("re-encrypted");
    assert_eq!(reencrypted["reencrypted"], 1);

    let metrics = format!("{}/metrics", world.cluster.metrics_url(testkit::ProcessKind::Gateway, 0));
    let metrics = world.http().get(metrics).send().await.expect("a response").text().await.expect("text");
    let emails: Vec<_> = world.cluster.sent_mail().into_values().collect();
    let searched = [
        ("the log", world.cluster.gateway(0).log(), "sale.php"),
        ("the database", dump(&world), "XXXXXXXXXXXX0366"),
        ("an response", responses.join("\n"), "transaction_id"),
        ("an e-mail", emails.join("\n"), "ending in 0366"),
        ("a figure", metrics, "gateway_requests_total"),
        ("Redis", redis_keys(&world).await, "gateway-known:"),
    ];
    let numbers = PLAIN.into_iter().chain([GOOD, DECLINED, CHALLENGED, WALLET, CODE, OTHER_CODE]);
    let mut secrets: Vec<_> = numbers.map(str::to_owned).collect();
    secrets.extend([world.account.api_key.clone(), world.account.secret_key.clone()]);
    for (what, text, contains) in &searched {
        assert!(text.contains(contains), "{what} was not read");
        for secret in &secrets {
            assert_eq!(find_secret(text, secret), None, "{secret} is in {what}");
        }
    }
    for person in ["jane@example.com", "Jane", "books@shop.example"] {
        assert!(!searched[0].1.contains(person), "{person} is in the log");
    }
    assert!(emails.len() > 50 && searched[0].1.lines().count() > 200, "there was enough to search");
}

#[test]
fn the_search_finds_secrets_in_every_encoding() {
    let number = PLAIN[0];
    let hex: String = number.bytes().map(|byte| format!("{byte:02X}")).collect();
    let spaced = "4532 0151 1283 0366";
    let encoded = ["", "a", "ab"].map(|before| BASE64_STANDARD.encode(format!("{before}{number}{{}}")));
    for text in [number, &format!("x{number}y"), spaced, "4532-0151-1283-0366", &hex, &hex.to_lowercase()] {
        assert!(find_secret(&format!("before {text} after"), number).is_some(), "{text}");
    }
    for text in encoded {
        assert!(find_secret(&format!("\"{text}\""), number).is_some(), "{text}");
    }
    for text in ["cvv=9081&", "\"9081\"", "39303831", "OTA4MQ=="] {
        assert!(find_secret(text, CODE).is_some(), "{text}");
    }
    for text in ["0.009081", "190812", "01a217c2-c0e7-9081-1093-a35a376104ee", "XXXXXXXXXXXX0366"] {
        assert!(find_secret(text, CODE).is_none() && find_secret(text, number).is_none(), "{text}");
    }
}

/// The form in which a text contains a secret, if it does. Short secrets are searched for as words, because their
/// digits may occur in a time, a hash or a UUID by chance.
fn find_secret(text: &str, secret: &str) -> Option<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut spellings = vec![hex.to_uppercase(), hex];
    if secret.len() > 4 {
        spellings.push(secret.to_owned());
        let groups = |by: &str| {
            let parts: Vec<_> = secret.as_bytes().chunks(4).map(String::from_utf8_lossy).collect();
            parts.join(by)
        };
        spellings.extend([groups(" "), groups("-")]);
        spellings.extend((0..3).map(|before| stable_base64(secret, before)));
    } else {
        spellings.push(BASE64_STANDARD.encode(secret));
        let mut words = text.split(|c: char| !c.is_alphanumeric() && !['.', '-'].contains(&c));
        if words.any(|word| word == secret) {
            return Some(secret.to_owned());
        }
    }
    spellings.into_iter().find(|spelling| text.contains(spelling))
}

/// The part of a secret's base64 that does not depend on the bytes around it, if it begins at this offset in a group of
/// three.
fn stable_base64(secret: &str, before: usize) -> String {
    let encoded = BASE64_STANDARD.encode([vec![0; before], secret.as_bytes().to_vec()].concat());
    let first = (before * 8).div_ceil(6);
    let last = (before + secret.len()) * 8 / 6;
    encoded[first..last].to_owned()
}

/// A dump of the whole database.
fn dump(world: &World) -> String {
    let mut folders = vec![PathBuf::from("/usr/bin")];
    if let Ok(entries) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(entries.flatten().map(|version| version.path().join("bin")));
    }
    let program = folders.iter().map(|folder| folder.join("pg_dump")).rfind(|path| path.is_file()).expect("pg_dump");
    let output = Command::new(program).arg(world.cluster.database_url()).output().expect("pg_dump runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The number of keys in the gateway's Redis.
/// The names of the keys. Their values are empty.
async fn redis_keys(world: &World) -> String {
    let url = url::Url::parse(&world.cluster.redis.url()).expect("a URL");
    let mut connection =
        tokio::net::TcpStream::connect(("127.0.0.1", world.cluster.redis.port())).await.expect("Redis");
    let ask = format!("AUTH {}\r\nKEYS *\r\nQUIT\r\n", url.password().expect("a password"));
    connection.write_all(ask.as_bytes()).await.expect("sent");
    let mut response = String::new();
    connection.read_to_string(&mut response).await.expect("read");
    response
}

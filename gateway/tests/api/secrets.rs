//! Card numbers, security codes and keys: by every way in and through every operation, and then in no log, no answer, no letter,
//! no figure and no table, neither in clear nor as bytes nor in base64.

use std::path::PathBuf;
use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use testkit::Cluster;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{CHALLENGED, DECLINED, Form, GOOD, World, encrypt, until};

/// Nobody has one of these by chance.
const CODE: &str = "9081";
const OTHER_CODE: &str = "7593";
const PLAIN: [&str; 4] = ["4532015112830366", "5105105105105100", "378734493671000", "6011000990139424"];
const WALLET: &str = "4111111111111111";

/// Posts, and keeps what was answered.
struct Shop {
    world: World,
    answers: Vec<String>,
}

impl Shop {
    async fn post(&mut self, script: &str, form: &Form, code: &str) -> serde_json::Value {
        let said = self.world.post(script, &all_receipts(form.clone())).await;
        said.is(code);
        self.answers.push(said.0.to_string());
        said.0
    }

    async fn browse(&mut self, path: &str, form: &Form, code: &str) -> serde_json::Value {
        let said = self.world.browse(path, form).await;
        said.is(code);
        self.answers.push(said.0.to_string());
        said.0
    }

    fn of(&self, said: &serde_json::Value, amount: &str) -> Form {
        let id = said["transaction_id"].as_str().expect("an id");
        self.world.keys().with("transaction_id", id).with("amount", amount)
    }

    /// A charge with the code that is looked for.
    fn charge(&self, number: &str) -> Form {
        self.world.charge(number).with("cvv", CODE)
    }

    /// A card as a browser sends it.
    fn field(&self, number: &str) -> Form {
        let form = self.world.browser().with("creditcard_number", number).with("cvv", OTHER_CODE);
        form.with("expire_month", "12").with("expire_year", "2034").with("name", "Jane Doe")
    }
}

fn all_receipts(form: Form) -> Form {
    form.with("email_receipt", "Y").with("emailReceiptDBAEmail", "Y")
}

/// A number by every way in.
async fn every_way_in(shop: &mut Shop, number: &str) {
    shop.post("sale.php", &shop.charge(number), "00").await;
    let sealed = encrypt(&shop.world.account.secret_key, number);
    shop.post("sale.php", &shop.charge(&sealed).with("use_secret_key", "Y"), "00").await;
    let proxied = shop.world.browser().with("creditcard_number", number);
    let proxied = shop.browse("proxynization", &proxied, "A01").await;
    shop.post("sale.php", &shop.charge(proxied["proxy_number"].as_str().expect("a number")), "00").await;
    let stored = shop.post("add_card.php", &shop.charge(number), "00").await;
    let by_token = |shop: &Shop, made: &serde_json::Value| {
        let form = shop.charge(number).with("card_token", made["card_token"].as_str().expect("a token"));
        ["creditcard_number", "expire_month", "expire_year", "cvv"].into_iter().fold(form, Form::without)
    };
    shop.post("sale.php", &by_token(shop, &stored), "00").await;
    // Of three tokens one is charged, one is stored, and one is left.
    let charged = shop.browse("field_token", &shop.field(number), "00").await;
    shop.post("authorize.php", &by_token(shop, &charged), "00").await;
    let changed = shop.browse("field_token", &shop.field(number), "00").await;
    shop.post("add_card.php", &by_token(shop, &changed), "00").await;
    shop.browse("field_token", &shop.field(number), "00").await;
}

/// A number through every operation, and every kind of error.
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
    shop.browse("field_token", &shop.field(&mistyped), "02").await;
    shop.browse("proxynization", &shop.world.browser().with("creditcard_number", &mistyped), "02").await;
}

/// Declines, challenges, inquiries, wallets.
async fn the_test_cards(shop: &mut Shop) {
    shop.post("sale.php", &shop.charge(DECLINED), "F").await;
    shop.post("account_validation.php", &shop.charge(GOOD), "00").await;
    for decision in ["confirm", "refuse", "nothing"] {
        let form = shop.charge(CHALLENGED).with("3ds_redirect_url", "https://shop.example/");
        let said = shop.post("sale.php", &form, "00").await;
        let page = said["redirect_url"].as_str().expect("a page");
        let shown = shop.world.http().get(page).send().await.expect("an answer");
        let decided = shop.world.raw(page, &Form::empty().with("decision", decision)).await;
        shop.answers.push(format!("{:?}", decided.headers()));
        for answer in [shown, decided] {
            shop.answers.push(answer.text().await.expect("text"));
        }
    }
    let asked = shop.world.browser().with("amount", "2.00").with("currency", "USD");
    let signed = shop.browse("wallet_token", &asked.with("creditcard_number", WALLET), "00").await;
    let token = signed["signature_token"].as_str().expect("a token");
    shop.post("wallet_sale.php", &shop.charge(GOOD).with("signature_token", token), "00").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_secret_is_logged_told_sent_or_stored_in_clear() {
    let world = World::of(Cluster::builder().gateway(1).env("RUST_LOG", "trace"), &[]).await;
    let set = ["account", "set", "--username", "shop", "--contact-email", "books@shop.example"];
    world.cluster.run_gateway(&set).await.expect("set");
    let mut shop = Shop { world, answers: Vec::new() };
    for number in PLAIN {
        every_way_in(&mut shop, number).await;
        every_operation(&mut shop, number).await;
    }
    the_test_cards(&mut shop).await;
    let Shop { mut world, answers } = shop;
    let pending = "SELECT count(*) FROM gateway.receipts WHERE due_at IS NOT NULL";
    until("the last receipt", async || (world.number(pending).await == 0).then_some(())).await;
    world.execute("UPDATE gateway.accounts SET secret_key_sealed = substring(secret_key_sealed FROM 6)").await;
    let reencrypted = world.cluster.run_gateway(&["reencrypt"]).await.expect("re-encrypted");
    assert_eq!(reencrypted["reencrypted"], 1);

    let figures = format!("{}/metrics", world.cluster.metrics_url(testkit::Kind::Gateway, 0));
    let figures = world.http().get(figures).send().await.expect("an answer").text().await.expect("text");
    let letters: Vec<_> = world.cluster.letters().into_values().collect();
    let searched = [
        ("the log", world.cluster.gateway(0).log(), "sale.php"),
        ("the database", dump(&world), "XXXXXXXXXXXX0366"),
        ("an answer", answers.join("\n"), "transaction_id"),
        ("a letter", letters.join("\n"), "ending in 0366"),
        ("a figure", figures, "gateway_requests_total"),
    ];
    let numbers = PLAIN.into_iter().chain([GOOD, DECLINED, CHALLENGED, WALLET, CODE, OTHER_CODE]);
    let mut secrets: Vec<_> = numbers.map(str::to_owned).collect();
    secrets.extend([world.account.api_key.clone(), world.account.secret_key.clone()]);
    for (what, text, contains) in &searched {
        assert!(text.contains(contains), "{what} was not read");
        for secret in &secrets {
            assert_eq!(found(text, secret), None, "{secret} is in {what}");
        }
    }
    for person in ["jane@example.com", "Jane", "books@shop.example"] {
        assert!(!searched[0].1.contains(person), "{person} is in the log");
    }
    assert!(letters.len() > 50 && searched[0].1.lines().count() > 200, "there was something to look into");
    assert_eq!(redis_keys(&world).await, 0, "the gateway keeps nothing in Redis");
}

#[test]
fn a_secret_is_found_however_it_is_written() {
    let number = PLAIN[0];
    let hex: String = number.bytes().map(|byte| format!("{byte:02X}")).collect();
    let spaced = "4532 0151 1283 0366";
    let encoded = ["", "a", "ab"].map(|before| BASE64_STANDARD.encode(format!("{before}{number}{{}}")));
    for text in [number, &format!("x{number}y"), spaced, "4532-0151-1283-0366", &hex, &hex.to_lowercase()] {
        assert!(found(&format!("before {text} after"), number).is_some(), "{text}");
    }
    for text in encoded {
        assert!(found(&format!("\"{text}\""), number).is_some(), "{text}");
    }
    for text in ["cvv=9081&", "\"9081\"", "39303831", "OTA4MQ=="] {
        assert!(found(text, CODE).is_some(), "{text}");
    }
    for text in ["0.009081", "190812", "XXXXXXXXXXXX0366"] {
        assert!(found(text, CODE).is_none() && found(text, number).is_none(), "{text}");
    }
}

/// How a text tells this secret, if it does. A short one is looked for as a word, for its digits may stand in a time or a hash by
/// chance.
fn found(text: &str, secret: &str) -> Option<String> {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut spellings = vec![hex.to_uppercase(), hex];
    if secret.len() > 4 {
        spellings.push(secret.to_owned());
        let groups = |by: &str| {
            let parts: Vec<_> = secret.as_bytes().chunks(4).map(String::from_utf8_lossy).collect();
            parts.join(by)
        };
        spellings.extend([groups(" "), groups("-")]);
        spellings.extend((0..3).map(|before| core_of_base64(secret, before)));
    } else {
        spellings.push(BASE64_STANDARD.encode(secret));
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '.');
        if words.any(|word| word == secret) {
            return Some(secret.to_owned());
        }
    }
    spellings.into_iter().find(|spelling| text.contains(spelling))
}

/// What stands in base64 wherever a secret begins so many bytes into a group of three, whatever is before and behind it.
fn core_of_base64(secret: &str, before: usize) -> String {
    let encoded = BASE64_STANDARD.encode([vec![0; before], secret.as_bytes().to_vec()].concat());
    let first = (before * 8).div_ceil(6);
    let last = (before + secret.len()) * 8 / 6;
    encoded[first..last].to_owned()
}

/// The whole database as text.
fn dump(world: &World) -> String {
    let mut folders = vec![PathBuf::from("/usr/bin")];
    if let Ok(found) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(found.flatten().map(|version| version.path().join("bin")));
    }
    let program = folders.iter().map(|folder| folder.join("pg_dump")).rfind(|path| path.is_file()).expect("pg_dump");
    let output = Command::new(program).arg(world.cluster.database_url()).output().expect("pg_dump runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// How many keys there are in the Redis that the gateway was told of.
async fn redis_keys(world: &World) -> u64 {
    let url = url::Url::parse(&world.cluster.redis.url()).expect("a URL");
    let mut connection =
        tokio::net::TcpStream::connect(("127.0.0.1", world.cluster.redis.port())).await.expect("Redis");
    let ask = format!("AUTH {}\r\nDBSIZE\r\nQUIT\r\n", url.password().expect("a password"));
    connection.write_all(ask.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.expect("read");
    let size = answer.lines().find_map(|line| line.strip_prefix(':')).expect("a number");
    size.parse().expect("a number")
}

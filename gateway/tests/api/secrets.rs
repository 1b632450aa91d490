//! Card numbers, security codes and keys: in no log, and in no table in clear.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{CHALLENGED, DECLINED, Form, GOOD, World};

const CODE: &str = "9081";
const PLAIN: [&str; 4] = ["4532015112830366", "5105105105105100", "378734493671000", "6011000990139424"];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_secret_is_logged_or_stored_in_clear() {
    let mut world = World::of(testkit::Cluster::builder().gateway(1).env("RUST_LOG", "trace"), &[]).await;
    let with_code = |form: Form| form.with("cvv", CODE);
    // Every way in, those that fail too.
    for number in PLAIN {
        world.post("sale.php", &with_code(world.charge(number))).await.is("00");
        world.post("authorize.php", &with_code(world.charge(number))).await.is("00");
        world.post("sale.php", &with_code(world.charge(number)).with("amount", "x")).await.is("07");
        world.post("sale.php", &with_code(world.charge(number)).with("memo", "\u{0}")).await.is("A1");
        world.post("unreference_refund.php", &world.charge(number)).await.is("00");
        world.post("add_card.php", &world.charge(number)).await.is("00");
        world.browse("proxynization", &world.browser().with("creditcard_number", number)).await.is("A01");
        let field =
            world.browser().with("creditcard_number", number).with("expire_month", "12").with("expire_year", "2034");
        world.browse("field_token", &with_code(field)).await.is("00");
    }
    world.post("sale.php", &with_code(world.charge(DECLINED))).await.is("F");
    world.post("account_validation.php", &with_code(world.charge(GOOD))).await.is("00");
    let pending = with_code(world.charge(CHALLENGED)).with("3ds_redirect_url", "https://shop.example/");
    world.post("sale.php", &pending).await.is("00");
    let wallet = world.browser().with("amount", "2.00").with("currency", "USD");
    world.browse("wallet_token", &wallet).await.is("00");
    let mut secrets: Vec<String> = [CODE, GOOD, DECLINED, CHALLENGED, "4111111111111111"].map(str::to_owned).into();
    secrets.extend(PLAIN.map(str::to_owned));
    secrets.extend([world.account.api_key.clone(), world.account.secret_key.clone()]);

    let log = world.cluster.gateway(0).log();
    assert!(log.contains("sale.php") && log.lines().count() > 20, "the log was read");
    let dump = dump(&world);
    assert!(dump.contains("COPY gateway.transactions") && dump.contains("XXXXXXXXXXXX0366"), "the dump was made");
    for secret in secrets {
        assert!(!mentions(&log, &secret), "{secret} is in the log");
        assert!(!mentions(&dump, &secret), "{secret} is in the database");
        let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert!(!dump.contains(&hex), "{secret} is in the database as bytes");
    }
}

/// Whether a text has this secret: a short one as a word, for its digits may stand in a time or a hash by chance.
fn mentions(text: &str, secret: &str) -> bool {
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '.');
    if secret.len() > 4 { text.contains(secret) } else { words.any(|word| word == secret) }
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

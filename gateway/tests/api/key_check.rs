//! A gateway with keys that fit nothing of what is stored does not start, and says which variable is wrong.

use testkit::{Builder, Cluster, Kind};

use crate::support::{GOOD, World};

fn key(digit: &str) -> String {
    digit.repeat(64)
}

fn keys(card_key: &str, pepper: &str) -> Builder {
    Cluster::builder().env("GATEWAY_CARD_KEY", &key(card_key)).env("GATEWAY_PEPPER", &key(pepper))
}

async fn does_not_start(world: &mut World, variable: &str) {
    let refused = world.cluster.add(Kind::Gateway).await.map(drop).expect_err("it does not start");
    assert!(format!("{refused:#}").contains("it ended (exit status: 1)"), "{refused:#}");
    let said = world.cluster.processes().last().expect("it was added").log();
    assert!(said.contains(&format!("environment variable {variable}:")) && said.contains("rotation.md"), "{said}");
    assert!(!said.contains("is listening") && !said.contains(&key("e")[..16]), "{said}");
    // It makes no keys either that nobody could use.
    for arguments in [["rotate-keys", "--username", "shop"], ["create", "--username", "other"]] {
        let refused = world.cluster.run_gateway(&[&["account"], &arguments[..]].concat()).await.expect_err("refused");
        assert!(format!("{refused:#}").contains(variable), "{refused:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_are_seen_at_the_start() {
    // Whatever keys an empty database is begun with, they are those that count from then on.
    let mut world = World::of(keys("a", "c").gateway(2), &[]).await;
    world.cluster.set_env("GATEWAY_CARD_KEY", &key("e"));
    does_not_start(&mut world, "GATEWAY_CARD_KEY").await;
    world.post("add_card.php", &world.charge(GOOD)).await.is("00");
    does_not_start(&mut world, "GATEWAY_CARD_KEY").await;
    // Beside the right one a key that nothing was sealed under is one on its way in.
    world.cluster.set_env("GATEWAY_OLD_CARD_KEYS", &key("a"));
    world.cluster.add(Kind::Gateway).await.expect("a step of a rotation");
    world.cluster.run_gateway(&["reencrypt"]).await.expect("re-encrypted");
    world.cluster.set_env("GATEWAY_OLD_CARD_KEYS", "");
    world.cluster.add(Kind::Gateway).await.expect("its last step");

    world.cluster.set_env("GATEWAY_PEPPER", &key("d"));
    does_not_start(&mut world, "GATEWAY_PEPPER").await;
    // They were lost: it must be possible to begin anew.
    world.cluster.set_env("KEYS_UNCHECKED", "true");
    world.cluster.add(Kind::Gateway).await.expect("unchecked");
    world.cluster.run_gateway(&["account", "rotate-keys", "--username", "shop"]).await.expect("new keys");
    world.cluster.set_env("KEYS_UNCHECKED", "false");
    world.cluster.add(Kind::Gateway).await.expect("it fits again");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pepper_of_an_account_from_before_it_was_noted_is_noted_when_its_key_is_used() {
    let mut world = World::of(keys("a", "c").gateway(1), &[]).await;
    world.execute("UPDATE gateway.accounts SET pepper_id = NULL").await;
    world.cluster.set_env("GATEWAY_PEPPER", &key("d"));
    let noted = "SELECT count(pepper_id) FROM gateway.accounts";
    // Nothing is known yet, and one that is wrong notes nothing.
    world.cluster.add(Kind::Gateway).await.expect("nobody can know");
    let wrong = format!("{}/apis/sale.php", world.cluster.gateway_url(1));
    let answer: serde_json::Value = world.raw(&wrong, &world.charge(GOOD)).await.json().await.expect("JSON");
    assert_eq!((&answer["response"]["code"], world.number(noted).await), (&"09".into(), 0));
    world.post("sale.php", &world.charge(GOOD)).await.is("00");
    assert_eq!(world.number(noted).await, 1);
    does_not_start(&mut world, "GATEWAY_PEPPER").await;
}

//! The network of the containers: a bridge, an address for each, their names, and ports that are published.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use anyhow::{Context, Result};

use crate::shell::ip;

const BRIDGE: &str = "payments0";
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 1);

type Names = BTreeMap<String, Vec<Ipv4Addr>>;

/// The bridge and who is on it.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    names: Arc<Mutex<Names>>,
    taken: Arc<Mutex<u8>>,
}

impl Network {
    pub(crate) fn create() -> Result<Self> {
        ip("link set lo up")?;
        // Left alone it takes another with each new link, and who knows the former one talks to nobody.
        ip(&format!("link add name {BRIDGE} address 02:42:ac:1e:00:01 type bridge"))?;
        ip(&format!("addr add {GATEWAY}/24 dev {BRIDGE}"))?;
        ip(&format!("link set {BRIDGE} up"))?;
        let network = Self { names: Arc::default(), taken: Arc::new(Mutex::new(1)) };
        let socket = UdpSocket::bind((GATEWAY, 53)).context("the port of names")?;
        let names = Arc::clone(&network.names);
        thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                let said = answer(&packet[..length], &names.lock().unwrap_or_else(PoisonError::into_inner));
                let _ = said.map(|said| socket.send_to(&said, from));
            }
        });
        Ok(network)
    }

    /// An address, and the link that a container gets.
    pub(crate) fn next(&self) -> Result<(Ipv4Addr, String)> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        *taken += 1;
        let link = format!("c{taken}");
        ip(&format!("link add v{taken} type veth peer name {link}"))?;
        ip(&format!("link set v{taken} master {BRIDGE} up"))?;
        Ok((Ipv4Addr::new(172, 30, 0, *taken), link))
    }

    /// From now on the name leads to this address too.
    pub(crate) fn name(&self, name: &str, address: Ipv4Addr) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default().push(address);
    }

    pub(crate) fn forget(&self, address: Ipv4Addr) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.values_mut().for_each(|addresses| addresses.retain(|known| *known != address));
    }
}

/// The answer to a question for a name: all its addresses, none for other types, NXDOMAIN for an unknown one.
fn answer(question: &[u8], names: &Names) -> Option<Vec<u8>> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*question.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(question.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let asked = question.get(at..at + 4)?;
    let known = names.get(&labels.join(".")).filter(|addresses| !addresses.is_empty());
    let addresses = known.filter(|_| asked == [0, 1, 0, 1]).map_or(&[][..], Vec::as_slice);
    let code = if known.is_some() { 0 } else { 3 };
    let mut said =
        [&question[..2], &[0x81, 0x80 | code, 0, 1, 0, u8::try_from(addresses.len()).ok()?, 0, 0, 0, 0]].concat();
    said.extend(&question[12..at + 4]);
    for address in addresses {
        // The name of the question, an address of the Internet, for ten minutes, of four bytes.
        said.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 2, 88, 0, 4]);
        said.extend(address.octets());
    }
    Some(said)
}

/// Publishes a container's port as `127.0.0.1:8080-8089:8080` says: on the first of the range that is free.
pub(crate) fn publish(said: &str, container: Ipv4Addr) -> Result<u16> {
    let mut parts = said.rsplitn(3, ':');
    let mut next = || parts.next().context("address:port:port");
    let (inside, outside, address) = (next()?.parse::<u16>()?, next()?, next()?);
    let (first, last) = outside.split_once('-').unwrap_or((outside, outside));
    let range = first.parse::<u16>()?..=last.parse::<u16>()?;
    let listener = range.into_iter().find_map(|port| TcpListener::bind((address, port)).ok());
    let listener = listener.with_context(|| format!("no port of {outside} is free"))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            if let Ok(server) = TcpStream::connect((container, inside)) {
                let _ = join(&client, &server).and_then(|()| join(&server, &client));
            }
        }
    });
    Ok(port)
}

/// Carries on what comes from one to the other until it ends.
fn join(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    Ok(())
}

#[test]
fn a_name_leads_to_all_of_its_kind() {
    let question = b"\x01\x02\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x03api\x00\x00\x01\x00\x01\x00\x00\x29";
    let one = Ipv4Addr::new(172, 30, 0, 2);
    let names = Names::from([("api".to_owned(), vec![one, GATEWAY])]);
    let said = answer(question, &names).expect("an answer");
    assert_eq!((said[3], said[7], &said[said.len() - 4..]), (0x80, 2, &GATEWAY.octets()[..]));
    let unknown = answer(question, &Names::new()).expect("an answer");
    assert_eq!((unknown[3], unknown[7], unknown.len()), (0x83, 0, 21));
    assert_eq!(answer(&question[..14], &names), None);
}

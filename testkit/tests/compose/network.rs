//! The network of the containers: a bridge, an address for each, name resolution and published ports.

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

#[derive(Clone, Debug)]
pub(crate) struct Network {
    names: Arc<Mutex<Names>>,
    last_host: Arc<Mutex<u8>>,
}

impl Network {
    pub(crate) fn create() -> Result<Self> {
        ip("link set lo up")?;
        // Without a fixed MAC address a bridge changes it with each new link, which invalidates the ARP caches.
        ip(&format!("link add name {BRIDGE} address 02:42:ac:1e:00:01 type bridge"))?;
        ip(&format!("addr add {GATEWAY}/24 dev {BRIDGE}"))?;
        ip(&format!("link set {BRIDGE} up"))?;
        let network = Self { names: Arc::default(), last_host: Arc::new(Mutex::new(1)) };
        let socket = UdpSocket::bind((GATEWAY, 53)).context("the DNS port")?;
        let names = Arc::clone(&network.names);
        thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut packet) {
                let response = resolve(&packet[..length], &names.lock().unwrap_or_else(PoisonError::into_inner));
                let _ = response.map(|response| socket.send_to(&response, from));
            }
        });
        Ok(network)
    }

    /// Creates the network link of a new container: its address and the name of the link.
    pub(crate) fn add_link(&self) -> Result<(Ipv4Addr, String)> {
        let mut host = self.last_host.lock().unwrap_or_else(PoisonError::into_inner);
        *host += 1;
        let link = format!("c{host}");
        ip(&format!("link add v{host} type veth peer name {link}"))?;
        ip(&format!("link set v{host} master {BRIDGE} up"))?;
        Ok((Ipv4Addr::new(172, 30, 0, *host), link))
    }

    /// Adds an address to those of a name.
    pub(crate) fn add_name(&self, name: &str, address: Ipv4Addr) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default().push(address);
    }

    pub(crate) fn remove_address(&self, address: Ipv4Addr) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.values_mut().for_each(|addresses| addresses.retain(|other| *other != address));
    }
}

/// The response to a DNS query: all addresses of the name, none for types other than A, NXDOMAIN for an unknown name.
fn resolve(query: &[u8], names: &Names) -> Option<Vec<u8>> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*query.get(at)?);
        at += 1;
        if length == 0 {
            break;
        }
        labels.push(String::from_utf8_lossy(query.get(at..at + length)?).to_lowercase());
        at += length;
    }
    let type_and_class = query.get(at..at + 4)?;
    let found = names.get(&labels.join(".")).filter(|addresses| !addresses.is_empty());
    let addresses = found.filter(|_| type_and_class == [0, 1, 0, 1]).map_or(&[][..], Vec::as_slice);
    let code = if found.is_some() { 0 } else { 3 };
    let mut response =
        [&query[..2], &[0x81, 0x80 | code, 0, 1, 0, u8::try_from(addresses.len()).ok()?, 0, 0, 0, 0]].concat();
    response.extend(&query[12..at + 4]);
    for address in addresses {
        // The name of the question by reference, type A, class IN, TTL 600 s, 4 bytes (RFC 1035, 4.1.3).
        response.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 2, 88, 0, 4]);
        response.extend(address.octets());
    }
    Some(response)
}

/// Publishes a container's port, for example `127.0.0.1:8080-8089:8080`, on the first free port of the range.
pub(crate) fn publish(mapping: &str, container: Ipv4Addr) -> Result<u16> {
    let mut parts = mapping.rsplitn(3, ':');
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
                let _ = forward(&client, &server).and_then(|()| forward(&server, &client));
            }
        }
    });
    Ok(port)
}

/// Copies one direction of a connection until its end, in a thread.
fn forward(from: &TcpStream, to: &TcpStream) -> io::Result<()> {
    let (mut from, mut to) = (from.try_clone()?, to.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    Ok(())
}

#[test]
fn a_service_name_resolves_to_all_its_containers() {
    let query = b"\x01\x02\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x03api\x00\x00\x01\x00\x01\x00\x00\x29";
    let one = Ipv4Addr::new(172, 30, 0, 2);
    let names = Names::from([("api".to_owned(), vec![one, GATEWAY])]);
    let response = resolve(query, &names).expect("a response");
    assert_eq!((response[3], response[7], &response[response.len() - 4..]), (0x80, 2, &GATEWAY.octets()[..]));
    let unknown = resolve(query, &Names::new()).expect("a response");
    assert_eq!((unknown[3], unknown[7], unknown.len()), (0x83, 0, 21));
    assert_eq!(resolve(&query[..14], &names), None);
}

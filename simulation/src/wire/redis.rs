//! RESP, the protocol of Redis (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).

/// The length of the value at the start of `bytes`.
pub fn value(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let number = || std::str::from_utf8(&bytes[1..line - 2]).ok()?.parse::<i64>().ok();
    match bytes[0] {
        b'$' | b'=' | b'!' => match usize::try_from(number()?) {
            Ok(length) => (bytes.len() >= line + length + 2).then_some(line + length + 2),
            Err(_) => Some(line),
        },
        kind @ (b'*' | b'~' | b'>' | b'%') => {
            let values = number()?.max(0) * if kind == b'%' { 2 } else { 1 };
            (0..values).try_fold(line, |end, _| Some(end + value(&bytes[end..])?))
        }
        _ => Some(line),
    }
}

/// The arguments of a command.
pub fn arguments(mut command: &[u8]) -> Vec<&[u8]> {
    let mut arguments = Vec::new();
    let Some(header) = command.windows(2).position(|pair| pair == b"\r\n") else { return arguments };
    command = &command[header + 2..];
    while let Some(length) = value(command) {
        let start = command.windows(2).position(|pair| pair == b"\r\n").map_or(0, |line| line + 2);
        arguments.push(&command[start..length - 2]);
        command = &command[length..];
    }
    arguments
}

/// How long a command blocks if there is nothing to read, in milliseconds.
pub fn block_ms(command: &[u8]) -> Option<u64> {
    let arguments = arguments(command);
    let option = arguments.iter().position(|argument| argument.eq_ignore_ascii_case(b"BLOCK"))?;
    std::str::from_utf8(arguments.get(option + 1)?).ok()?.parse().ok()
}

/// The name of a command.
pub fn name(command: &[u8]) -> &[u8] {
    arguments(command).first().copied().unwrap_or_default()
}

/// Whether other connections may receive something because of this command.
pub fn wakes_others(command: &[u8]) -> bool {
    [&b"XADD"[..], b"PUBLISH"].iter().any(|waking| name(command).eq_ignore_ascii_case(waking))
}

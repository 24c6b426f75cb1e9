//! A server that speaks as much of PostgreSQL's protocol as is needed to say that it is an old one.

use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// Types of columns, by their numbers in `pg_type`.
const BOOL: u32 = 16;
const INT4: u32 = 23;
const TEXT: u32 = 25;

/// Starts a server with this version, as a number and as a text. Answers its port.
pub(crate) fn start(number: u32, text: &'static str) -> u16 {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in server.incoming().flatten() {
            // a client that has seen enough goes away
            thread::spawn(move || serve(client, number, text));
        }
    });
    port
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind][..], &length, body].concat()
}

fn body(client: &mut TcpStream) -> Result<Vec<u8>> {
    let mut length = [0; 4];
    client.read_exact(&mut length)?;
    let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap() - 4];
    client.read_exact(&mut body)?;
    Ok(body)
}

fn serve(mut client: TcpStream, number: u32, text: &str) -> Result<()> {
    let number = number.to_be_bytes();
    // version, `fsync`, `full_page_writes`, whether it only reads, and its identity
    let values: [(u32, &[u8]); 6] = [
        (INT4, &number),
        (TEXT, text.as_bytes()),
        (TEXT, b"on"),
        (TEXT, b"on"),
        (BOOL, b"\0"),
        (TEXT, b"1/logs/public"),
    ];
    let ready = message(b'Z', b"I");
    body(&mut client)?;
    client.write_all(&[message(b'R', &[0; 4]), ready.clone()].concat())?;
    let (mut columns, mut parameters) = (&values[..0], 0_u16);
    loop {
        let mut kind = [0];
        client.read_exact(&mut kind)?;
        let body = body(&mut client)?;
        let count = u16::try_from(columns.len()).unwrap().to_be_bytes();
        let answer = match kind[0] {
            // parse
            b'P' => {
                let sql = String::from_utf8_lossy(&body).into_owned();
                let asks_version = sql.contains("server_version_num");
                columns = if asks_version { &values[..] } else { &values[..0] };
                parameters = (1..9).take_while(|n| sql.contains(&format!("${n}"))).count() as u16;
                message(b'1', &[])
            }
            // describe
            b'D' => {
                let mut wanted = parameters.to_be_bytes().to_vec();
                (0..parameters).for_each(|_| wanted.extend(TEXT.to_be_bytes()));
                let mut row = count.to_vec();
                for (kind, _) in columns {
                    // name, table, its column, type, sizes, binary
                    row.extend(b"c\0\0\0\0\0\0\0");
                    row.extend(kind.to_be_bytes());
                    row.extend([255, 255, 255, 255, 255, 255, 0, 1]);
                }
                [message(b't', &wanted), message(b'T', &row)].concat()
            }
            // bind, execute, close, sync
            b'B' => message(b'2', &[]),
            b'E' => {
                let mut row = count.to_vec();
                for (_, value) in columns {
                    row.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
                    row.extend(*value);
                }
                [message(b'D', &row), message(b'C', b"SELECT 1\0")].concat()
            }
            b'C' => message(b'3', &[]),
            b'S' => ready.clone(),
            _ => return Ok(()),
        };
        client.write_all(&answer)?;
    }
}

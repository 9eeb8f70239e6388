//! `dayport local`: an S3 endpoint over a folder, until Ctrl-C.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use super::signals::Signals;
use super::{LocalArguments, Outcome, Terminal};
use crate::config::Environment;
use crate::domain::error::Error;
use crate::local::{LocalKeys, LocalS3};

pub(super) async fn serve(arguments: LocalArguments, environment: &Environment, terminal: &Terminal) -> Outcome {
    let mut signals = Signals::listen().map_err(|error| Error::bug("no signal can be listened to").with_source(error))?;
    let (keys, are_own) = match environment.key_pair.clone() {
        Some(pair) => {
            let keys = LocalKeys { access_key_id: pair.access_key_id, secret_access_key: pair.secret_access_key };
            (keys, true)
        }
        None => (LocalKeys::default(), false),
    };
    let exports = exports(&keys, are_own);
    let root = arguments.root.display().to_string();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let server = LocalS3::bind(arguments.root, address, keys).await.map_err(|error| refusal(&root, arguments.port, error))?;
    let endpoint = format!("http://{}", server.addr());
    terminal.print(&format!(
        "S3 at {endpoint} over {root}, until Ctrl-C. A bucket is a folder in it (mkdir makes one).\n\n    export AWS_ENDPOINT_URL={endpoint} {exports}\n"
    ))?;
    server
        .serve(async {
            signals.next().await;
        })
        .await;
    Ok(ExitCode::SUCCESS)
}

/// What a client needs in its environment beside the endpoint. The secret of the user's own key pair is never printed.
fn exports(keys: &LocalKeys, are_own: bool) -> String {
    if are_own {
        "AWS_REGION=us-east-1   # the key pair is that of your environment".to_owned()
    } else {
        let LocalKeys { access_key_id, secret_access_key } = keys;
        format!("AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID={access_key_id} AWS_SECRET_ACCESS_KEY={secret_access_key}")
    }
}

fn refusal(root: &str, port: u16, error: io::Error) -> Error {
    let message = match error.kind() {
        io::ErrorKind::AddrInUse => format!("the port {port} is taken, name another by `--port`, or 0 for any"),
        io::ErrorKind::ResourceBusy => format!("the folder `{root}` can't be served twice"),
        _ => format!("the folder `{root}` can't be served on port {port}, see `--root` and `--port`"),
    };
    Error::vendor(message).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_own_secret_is_not_printed() {
        let own = LocalKeys { access_key_id: "AKIDEXAMPLE".to_owned(), secret_access_key: "hunter2".to_owned() };
        assert!(!exports(&own, true).contains("hunter2"));
        assert!(exports(&LocalKeys::default(), false).ends_with("AWS_ACCESS_KEY_ID=local AWS_SECRET_ACCESS_KEY=localsecret"));
    }
}

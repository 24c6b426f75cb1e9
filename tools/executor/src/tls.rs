//! TLS of both sides: the operator's certificate, and who has signed it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use leftfold_oauth::trust::accepting;
use rustls::client::WebPkiServerVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_platform_verifier::BuilderVerifierExt;

/// A certificate or key that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: {why}", file.display())]
    File { file: PathBuf, why: String },
    #[error("TLS: {0}")]
    Tls(#[from] rustls::Error),
}

fn unusable(file: &Path) -> impl Fn(&dyn std::fmt::Display) -> Error {
    let file = file.to_owned();
    move |why| Error::File { file: file.clone(), why: why.to_string() }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unusable = unusable(file);
    let found = CertificateDer::pem_file_iter(file).map_err(|error| unusable(&error))?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(|error| unusable(&error))?;
    if found.is_empty() {
        return Err(unusable(&"it holds no certificate"));
    }
    Ok(found)
}

/// The configuration of an executor with this chain of certificates and this key, both as PEM.
pub(crate) fn of_server(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, Error> {
    let certificates = certificates(chain)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key)(&error))?;
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(ring)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(certificates, private)?;
    Ok(Arc::new(config))
}

/// The configuration of a node. `roots` names the only authority that it trusts; `None`: those of the system.
pub(crate) fn of_client(roots: Option<&Path>) -> Result<Arc<ClientConfig>, Error> {
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&ring))
        .with_protocol_versions(&[&rustls::version::TLS13])?;
    let config = match roots {
        None => builder.with_platform_verifier()?.with_no_client_auth(),
        Some(file) => {
            let mut roots = RootCertStore::empty();
            let named = certificates(file)?;
            for certificate in &named {
                roots.add(certificate.clone()).map_err(|error| unusable(file)(&error))?;
            }
            let rules = WebPkiServerVerifier::builder_with_provider(roots.into(), ring)
                .build()
                .map_err(|error| unusable(file)(&error))?;
            builder
                .dangerous()
                .with_custom_certificate_verifier(accepting(named, rules))
                .with_no_client_auth()
        }
    };
    Ok(Arc::new(config))
}

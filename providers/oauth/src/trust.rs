//! Accepts a server's certificate that the user has named as an authority.
//!
//! `openssl req -x509` makes certificates that may sign others, and people name such a certificate itself. The rules of
//! WebPKI refuse an authority's certificate in the place of a server's, although its signature proves nothing that the
//! user has not said.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// A verifier with the rules of `verifier`, which also accepts the certificates `named`, each for the hosts that it names.
pub fn accepting(
    named: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ServerCertVerifier>,
) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Accepting { named, verifier })
}

/// The TLS of a client, if `SSL_CERT_FILE` names certificates. `None`: the system's rules suffice.
pub(crate) fn of_environment() -> Option<ClientConfig> {
    let file = std::env::var_os("SSL_CERT_FILE")?;
    let named = CertificateDer::pem_file_iter(file).ok()?.filter_map(Result::ok).collect();
    let ring = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = accepting(named, Arc::new(Verifier::new(Arc::clone(&ring)).ok()?));
    let mut config = ClientConfig::builder_with_provider(ring)
        .with_safe_default_protocol_versions()
        .ok()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Some(config)
}

#[derive(Debug)]
struct Accepting {
    named: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ServerCertVerifier>,
}

impl ServerCertVerifier for Accepting {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified =
            self.verifier.verify_server_cert(certificate, intermediates, host, ocsp_response, now);
        match verified {
            Err(refused)
                if is_of_authority(&refused)
                    && self.named.iter().any(|named| named == certificate) =>
            {
                verify_server_name(&ParsedCertificate::try_from(certificate)?, host)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Whether a certificate is refused only because it is an authority's. Its dates are checked before that. The reason is an
/// error of a crate below rustls, which only its text tells.
fn is_of_authority(refused: &Error) -> bool {
    matches!(refused, Error::InvalidCertificate(_))
        && format!("{refused:?}").contains("CaUsedAsEndEntity")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::RootCertStore;
    use rustls::client::WebPkiServerVerifier;

    use super::*;

    /// Signed by itself, as an authority, for `self.example.test` and 100 years from November 2026 on.
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\n\
        MIIBvzCCAWWgAwIBAgIUOJMfLk/2j1qHlMhra9bT5cOCJlkwCgYIKoZIzj0EAwIw\n\
        JTEjMCEGA1UEAwwaQSBzZXJ2ZXIgdGhhdCBzaWducyBpdHNlbGYwIBcNMjYxMTI5\n\
        MTMwMjM0WhgPMjEyNjExMDUxMzAyMzRaMCUxIzAhBgNVBAMMGkEgc2VydmVyIHRo\n\
        YXQgc2lnbnMgaXRzZWxmMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEv985u4qR\n\
        Q1MF/nF2ZYTEyjH2n5am9EykywKqGwbPb+B8eJ2kSjQLlFTo99x1kSbKHcluwNIo\n\
        u/5iWLOo3jXpcKNxMG8wHQYDVR0OBBYEFP2xkxYDTdzkD1womlEB93fxhKx8MB8G\n\
        A1UdIwQYMBaAFP2xkxYDTdzkD1womlEB93fxhKx8MBwGA1UdEQQVMBOCEXNlbGYu\n\
        ZXhhbXBsZS50ZXN0MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIg\n\
        Mdw6PYR+FI7cjlhwVESRQ6iBY5cD4j2I88k9BnC8LAMCIQDs18RmCzO3fLfVuT0z\n\
        npZsMsrPwZ1L2vov8uPA2Hr8fQ==\n\
        -----END CERTIFICATE-----";

    #[test]
    fn a_certificate_that_is_named_itself_is_accepted_for_its_hosts_and_dates() {
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE.as_bytes()).unwrap();
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let rules =
            WebPkiServerVerifier::builder_with_provider(roots.into(), ring).build().unwrap();
        let in_2027 = Duration::from_secs(3_600 * 24 * 365 * 58);
        for (named, host, time, accepted) in [
            (vec![certificate.clone()], "self.example.test", in_2027, true),
            (vec![certificate.clone()], "other.example.test", in_2027, false),
            (vec![certificate.clone()], "self.example.test", Duration::ZERO, false),
            (vec![], "self.example.test", in_2027, false),
        ] {
            let verifier = accepting(named, rules.clone());
            let now = UnixTime::since_unix_epoch(time);
            let host = ServerName::try_from(host).unwrap();
            let verified = verifier.verify_server_cert(&certificate, &[], &host, &[], now);
            assert_eq!(verified.is_ok(), accepted, "{host:?} {time:?} {verified:?}");
        }
    }
}

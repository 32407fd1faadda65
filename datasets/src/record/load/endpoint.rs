//! Where requests go.

use super::LoadError;
use ureq::http::Uri;

/// An address, and which of the two ways of asking is spoken there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    url: String,
    chat: bool,
}

impl Endpoint {
    /// From the address of an interface (`http://host:8000/v1`, to which `/chat/completions` is added), or the
    /// whole address of its `chat/completions` or `completions`.
    ///
    /// # Errors
    /// [`LoadError`]: it is no address, or not one of http.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        let wrong = |reason: &str| LoadError::Url { url: shown(text), reason: reason.to_owned() };
        let uri: Uri = text.parse().map_err(|error| wrong(&format!("{error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(LoadError::Tls(shown(text))),
            _ => return Err(wrong("it does not begin with http://")),
        }
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.host().is_empty() {
            return Err(wrong("it names no host"));
        }
        if authority.as_str().contains('@') {
            return Err(wrong("it holds a name or a password; a key is named by --key-env"));
        }
        let path = uri.path().trim_end_matches('/');
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let whole = path.ends_with("/completions");
        let added = if whole { "" } else { "/chat/completions" };
        Ok(Self {
            url: format!("http://{authority}{path}{added}{query}"),
            chat: !whole || path.ends_with("/chat/completions"),
        })
    }

    /// The whole address.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Whether it takes messages, and not a bare prompt.
    pub(super) fn is_chat(&self) -> bool {
        self.chat
    }

    /// The address without its query, which may hold what is secret.
    pub(super) fn public(&self) -> String {
        self.url.split('?').next().unwrap_or_default().to_owned()
    }
}

/// What may be shown of an address that is no good: neither its query nor what stands before an `@`.
fn shown(text: &str) -> String {
    let text = text.split('?').next().unwrap_or_default();
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}…{}", &text[..scheme + 3], &text[at..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_completed() {
        for (text, url, chat) in [
            ("http://localhost:8000/v1", "http://localhost:8000/v1/chat/completions", true),
            ("http://localhost:8000/v1/", "http://localhost:8000/v1/chat/completions", true),
            ("http://[::1]:80/v1/completions", "http://[::1]:80/v1/completions", false),
            ("http://a/v1/chat/completions?x=1", "http://a/v1/chat/completions?x=1", true),
            ("http://a", "http://a/chat/completions", true),
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!((endpoint.url(), endpoint.is_chat()), (url, chat));
        }
        assert_eq!(Endpoint::parse("http://a/v1?key=s").unwrap().public(), "http://a/v1/chat/completions");
    }

    #[test]
    fn what_is_no_address_is_refused_and_no_secret_shown() {
        assert!(
            matches!(Endpoint::parse("https://a/v1?key=s"), Err(LoadError::Tls(url)) if url == "https://a/v1")
        );
        for text in
            ["", "localhost:8000", "/v1", "ftp://a/", "http://", "http://a b/", "http://user:hush@a/v1"]
        {
            let error = Endpoint::parse(text).unwrap_err().to_string();
            assert!(error.contains("is no address") && !error.contains("hush"), "{error}");
        }
    }
}

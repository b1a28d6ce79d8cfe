use std::net::Ipv4Addr;

use axum::http::HeaderValue;

use super::*;

const fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pod(number: u16) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + u32::from(number)).into()
}

/// The address of the scraper.
fn scraper() -> IpAddr {
    pod(7)
}

fn forbidden() -> Verdict {
    Verdict::Forbidden("nobody".into())
}

#[test]
fn who_was_let_in_is_asked_about_after_a_minute_and_who_was_not_after_30_s() {
    let cases = [
        (Verdict::Allowed, at(60)),
        (Verdict::Unauthenticated, at(30)),
        (forbidden(), at(30)),
    ];
    for (verdict, lasts) in cases {
        let mut decisions = Decisions::default();
        let request = key("token", "get", "/metrics");
        assert_eq!(decisions.lookup(scraper(), &request, at(7)), Known::Nothing);
        decisions.remember(scraper(), request, verdict.clone(), at(7));
        let last = (at(7) + lasts).saturating_sub(Duration::from_nanos(1));
        assert_eq!(
            decisions.lookup(scraper(), &request, last),
            Known::Decided(verdict)
        );
        assert_eq!(
            decisions.lookup(scraper(), &request, at(7) + lasts),
            Known::Nothing
        );
    }
}

#[test]
fn a_decision_is_about_one_token_one_verb_and_one_path() {
    let mut decisions = Decisions::default();
    decisions.remember(
        scraper(),
        key("token", "get", "/metrics"),
        Verdict::Allowed,
        at(0),
    );
    for other in [
        key("token2", "get", "/metrics"),
        key("token", "head", "/metrics"),
        key("token", "get", "/configz"),
    ] {
        assert_eq!(decisions.lookup(scraper(), &other, at(0)), Known::Nothing);
    }
}

#[test]
fn made_up_tokens_are_asked_about_ten_times_and_then_once_a_second() {
    let mut decisions = Decisions::default();
    let mut asked = |tokens: std::ops::Range<u32>, now| {
        let keys = tokens.map(|token| key(&token.to_string(), "get", "/metrics"));
        let asked = keys.filter(|key| decisions.lookup(scraper(), key, now) == Known::Nothing);
        asked.count()
    };
    assert_eq!(asked(0..1_000, at(0)), 10);
    assert_eq!(asked(1_000..2_000, at(1)), 1);
    assert_eq!(asked(2_000..3_000, at(4)), 3);
}

/// Each second the scraper sends a new token, which at first is as unknown as the made-up ones.
#[test]
fn a_flood_of_made_up_tokens_neither_grows_nor_keeps_a_scraper_out() {
    let mut decisions = Decisions::default();
    let made_up = key("made up", "get", "/metrics");
    let mut last = made_up;
    for second in 1..1_000 {
        let rotated = key(&format!("rotated {second}"), "get", "/metrics");
        assert_eq!(decisions.lookup(scraper(), &rotated, at(second)), Known::Nothing);
        decisions.remember(scraper(), rotated, Verdict::Allowed, at(second));
        assert_eq!(
            decisions.lookup(scraper(), &last, at(second)),
            if second == 1 {
                Known::Nothing
            } else {
                Known::Decided(Verdict::Allowed)
            },
        );
        last = rotated;

        let refused = key(&format!("made up {second}"), "get", "/metrics");
        if decisions.lookup(pod(100), &refused, at(second)) == Known::Nothing {
            decisions.remember(pod(100), refused, Verdict::Unauthenticated, at(second));
        }
        for other in 100..100 + u16::try_from(2 * MOST_PEERS).unwrap() {
            while decisions.lookup(pod(other), &made_up, at(second)) == Known::Nothing {}
        }
    }
    assert_eq!(decisions.by_request.len(), MOST_DECISIONS);
    assert_eq!(decisions.by_peer.len(), MOST_PEERS);
}

#[test]
fn a_flood_from_many_addresses_asks_a_bounded_number_of_times() {
    let mut decisions = Decisions::default();
    let made_up = key("made up", "get", "/metrics");
    let mut asked = 0;
    for second in 0..100 {
        for number in 0..1_000 {
            asked += usize::from(decisions.lookup(pod(number), &made_up, at(second)) == Known::Nothing);
        }
    }
    // The first addresses have ten reviews each, then one a second.
    assert_eq!(asked, MOST_PEERS * (1 + 99));
}

#[test]
fn a_new_address_takes_the_place_of_one_that_was_quiet_and_was_not_let_in() {
    let mut decisions = Decisions::default();
    let token = key("token", "get", "/metrics");
    let mut look = |number, second| decisions.lookup(pod(number), &token, at(second));
    for number in 0..u16::try_from(MOST_PEERS).unwrap() {
        assert_eq!(look(number, u64::from(number)), Known::Nothing);
    }
    let last = u64::try_from(MOST_PEERS).unwrap();
    assert_eq!(look(1_000, 9), Known::TooMany, "the first was quiet for 9 s");
    assert_eq!(look(1_000, last), Known::Nothing);
    for known in 1..16 {
        decisions.remember(pod(known), token, Verdict::Allowed, at(0));
    }
    decisions.by_request.clear();
    assert_eq!(decisions.lookup(pod(1_001), &token, at(last)), Known::Nothing);
    assert!(decisions.by_peer.contains_key(&pod(1)), "it was let in");
    assert!(!decisions.by_peer.contains_key(&pod(16)));
}

#[test]
fn a_token_is_in_no_log() {
    let token = "secret".to_owned();
    assert_eq!(format!("{:?}", TokenReview { token }), "TokenReview { .. }");
}

#[test]
fn a_bearer_token_is_read_from_its_header() {
    let token = |header: &'static str| {
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(header))]);
        bearer(&headers).map(str::to_owned)
    };
    for header in ["Bearer abc", "bearer abc", "BEARER  abc "] {
        assert_eq!(token(header).as_deref(), Some("abc"), "{header:?}");
    }
    for header in ["", "Bearer", "Bearer ", "abc", "Basic abc", "Bearerabc"] {
        assert_eq!(token(header), None, "{header:?}");
    }
    assert_eq!(bearer(&HeaderMap::new()), None);
}

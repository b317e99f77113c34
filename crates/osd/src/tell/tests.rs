use super::*;

#[test]
fn the_table_describes_itself_as_the_stock_tool_parses_it() {
    let all = descriptions();
    let all = all.as_object().unwrap();
    assert_eq!(all.len(), rows().count());
    for entry in all.values() {
        let words = entry["sig"].as_array().unwrap();
        assert!(words[0].is_string(), "{entry}");
        for param in words.iter().filter(|word| word.is_object()) {
            assert!(param["name"].is_string() && param["type"].is_string(), "{entry}");
        }
    }
}

#[test]
fn arguments_come_as_text_or_as_numbers() {
    let Value::Object(args) = json!({"var": "fsid", "count": 5, "size": "6", "val": ["x"], "n": null}) else {
        unreachable!("it is written as an object")
    };
    let call = Call { args, conn: ConnId(1), tid: 1 };
    assert_eq!(call.text("var").as_deref(), Some("fsid"));
    assert_eq!((call.int("count"), call.int("size"), call.int("n")), (Some(5), Some(6), None));
    assert_eq!(call.text("val").as_deref(), Some("x"));
}

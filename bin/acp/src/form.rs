//! Shows questions of the `question` tool as forms, for clients that support elicitation.

use std::collections::BTreeMap;

use agent_client_protocol::v1::schema::{
    CreateElicitationRequest, CreateElicitationResponse, ElicitationAction,
    ElicitationContentValue, ElicitationFormMode, ElicitationPropertySchema, ElicitationSchema,
    ElicitationSessionScope, EnumOption, MultiSelectPropertySchema, SessionId,
    StringPropertySchema, ToolCallId,
};

use leftfold_view::{Choice, Question};

/// The fields of the form: the chosen options, and a free text.
const CHOICE: &str = "answer";
const WORDS: &str = "words";

pub(super) fn request(
    session: SessionId,
    call: ToolCallId,
    question: &Question,
) -> CreateElicitationRequest {
    let words = StringPropertySchema::new().title("In your own words".to_owned());
    let schema = match choice(question) {
        Some(choice) => {
            ElicitationSchema::new().property(CHOICE, choice, false).property(WORDS, words, false)
        }
        None => ElicitationSchema::new().property(WORDS, words, false),
    };
    let scope = ElicitationSessionScope::new(session).tool_call_id(call);
    CreateElicitationRequest::new(ElicitationFormMode::new(scope, schema), question.titled())
}

fn choice(question: &Question) -> Option<ElicitationPropertySchema> {
    let option = |choice: &Choice| {
        let description = Some(choice.description.trim()).filter(|text| !text.is_empty());
        EnumOption::new(choice.label.clone(), choice.label.clone())
            .description(description.map(str::to_owned))
    };
    let options: Vec<EnumOption> = question.options.iter().map(option).collect();
    let title = if question.header.trim().is_empty() { "Answer" } else { question.header.trim() };
    match (options.is_empty(), question.multiple) {
        (true, _) => None,
        (false, true) => {
            Some(MultiSelectPropertySchema::titled(options).title(title.to_owned()).into())
        }
        (false, false) => {
            Some(StringPropertySchema::new().one_of(options).title(title.to_owned()).into())
        }
    }
}

/// The answer as text; `None` if it was dismissed. The free text wins over chosen options; a form
/// may be left empty.
pub(super) fn answer(response: CreateElicitationResponse, question: &Question) -> Option<String> {
    let ElicitationAction::Accept(accepted) = response.action else { return None };
    let mut content = accepted.content.unwrap_or_default();
    let given = [WORDS, CHOICE].into_iter().find_map(|name| words(&mut content, name));
    given.or_else(|| question.default_answer())
}

fn words(content: &mut BTreeMap<String, ElicitationContentValue>, name: &str) -> Option<String> {
    let text = match content.remove(name)? {
        ElicitationContentValue::String(text) => text,
        ElicitationContentValue::StringArray(texts) => texts.join(", "),
        ElicitationContentValue::Integer(number) => number.to_string(),
        ElicitationContentValue::Number(number) => number.to_string(),
        ElicitationContentValue::Boolean(so) => so.to_string(),
        _ => return None,
    };
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use leftfold_view::question::CONTINUE;

    fn form(question: &Value) -> Value {
        let question: Question = serde_json::from_value(question.clone()).unwrap();
        let request = request(SessionId::new("s"), ToolCallId::new("c"), &question);
        serde_json::to_value(request).unwrap()
    }

    #[test]
    fn options_are_an_enumeration_and_words_are_always_welcome() {
        let options = json!([{ "label": "red", "description": "like fire" }, { "label": "blue" }]);
        let one = form(&json!({ "question": "Which?", "header": "Colour", "options": options }));
        assert_eq!(
            (&one["mode"], &one["sessionId"], &one["toolCallId"]),
            (&json!("form"), &json!("s"), &json!("c"))
        );
        assert_eq!(one["message"], "[Colour] Which?");
        let properties = &one["requestedSchema"]["properties"];
        assert_eq!(properties["answer"]["oneOf"][0]["const"], "red");
        assert_eq!(properties["answer"]["title"], "Colour");
        assert_eq!(properties["words"]["type"], "string");
        let several = json!({ "question": "Which?", "options": options, "multiple": true });
        assert_eq!(form(&several)["requestedSchema"]["properties"]["answer"]["type"], "array");
        let open = form(&json!({ "question": "Why?" }));
        assert_eq!(open["requestedSchema"]["properties"].as_object().unwrap().len(), 1);
    }

    #[test]
    fn words_come_first_and_nothing_leaves_it_to_the_model() {
        for (response, expected) in [
            (json!({ "action": "accept", "content": { "answer": "red" } }), Some("red")),
            (
                json!({ "action": "accept", "content": { "answer": ["red", "blue"] } }),
                Some("red, blue"),
            ),
            (
                json!({ "action": "accept", "content": { "answer": "red", "words": " green " } }),
                Some("green"),
            ),
            (json!({ "action": "accept", "content": { "words": "" } }), Some(CONTINUE)),
            (json!({ "action": "accept" }), Some(CONTINUE)),
            (json!({ "action": "decline" }), None),
            (json!({ "action": "cancel" }), None),
        ] {
            let response: CreateElicitationResponse = serde_json::from_value(response).unwrap();
            assert_eq!(answer(response, &Question::default()).as_deref(), expected);
        }
    }
}

//! The actor Permission: takes people's answers to questions. The first answer counts, later ones learn who gave it.

use std::collections::HashMap;

use leftfold_events::event::Permission as PermissionEvent;
use leftfold_events::{Fact, MessageId, Seq};
use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use crate::messages::{Answered, PermissionMessage, QuestionReply, SessionMessage};

pub(crate) struct Permission;

pub(crate) struct Questions {
    owner: ActorRef<SessionMessage>,
    /// The client that answered; `None` while the question is open.
    answers: HashMap<Seq, Option<String>>,
}

impl Actor for Permission {
    type Msg = PermissionMessage;
    type State = Questions;
    type Arguments = ActorRef<SessionMessage>;

    async fn pre_start(
        &self,
        _: ActorRef<Self::Msg>,
        owner: Self::Arguments,
    ) -> Result<Questions, ActorProcessingErr> {
        Ok(Questions { owner, answers: HashMap::new() })
    }

    async fn handle(
        &self,
        _: ActorRef<Self::Msg>,
        message: PermissionMessage,
        questions: &mut Questions,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            PermissionMessage::Ask { of } => {
                questions.answers.entry(of).or_insert(None);
            }
            PermissionMessage::Withdraw { of } => {
                questions.answers.remove(&of);
            }
            PermissionMessage::WithdrawAll => questions.answers.clear(),
            PermissionMessage::Answer { of, reply, settles, reply_to } => {
                questions.answer(of, reply, settles, reply_to)?;
            }
        }
        Ok(())
    }
}

impl Questions {
    /// Passes the first answer on. Its sender gets a reply once the answer is durable.
    fn answer(
        &mut self,
        of: Seq,
        reply: QuestionReply,
        settles: Option<MessageId>,
        reply_to: RpcReplyPort<Answered>,
    ) -> Result<(), ActorProcessingErr> {
        let late = match self.answers.get(&of) {
            None => Some(Answered::NotOpen),
            Some(Some(by)) => Some(Answered::Already { by: by.clone() }),
            Some(None) => None,
        };
        if let Some(late) = late {
            // the client may be gone
            let _ = reply_to.send(late);
            return Ok(());
        }
        self.answers.insert(of, Some(reply.by.clone()));
        let QuestionReply { answer: reply, feedback, always, by } = reply;
        let answered = match always {
            Some(always) => PermissionEvent::AnsweredFor { reply, feedback, by, always },
            None => PermissionEvent::Answered { reply, feedback, by },
        };
        let fact = Fact::for_intent(of, answered).settling(settles);
        self.owner.cast(SessionMessage::Answered { fact: Box::new(fact), reply_to })?;
        Ok(())
    }
}

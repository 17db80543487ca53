// Requests to the program attndb-chat, and its answers, as the fields of frames (chat_frames.h).
//
//   {op=template, source, tool_source, bos, eos}   {}
//   {op=caps}                                      what the template can show: a name is a field
//   {op=render, a chat}                            {a plan}
//   {op=markup, a chat}                            {prompt}: the template's own text, and no more
//   {op=read, parser_id, parser?, a form, text}    {a reply}, or {unknown_parser}: it is to be sent
//   {op=schema, schema}                            {grammar}
//   a request that fails                           {error}
//
// A list is the fields NAME.0, NAME.1, ... A flag is a field that is there; one that may be unknown
// is "true" or "false". The triggers of a grammar are a list "trigger" of texts; "pattern.N" is a
// flag of the one with this number.
//
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_CHAT_WIRE_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_CHAT_WIRE_H_

#include <map>
#include <string>
#include <vector>

#include "engines/llama/chat/chat_frames.h"
#include "engines/llama/chat/chat_input.h"
#include "engines/llama/chat_prompt.h"

namespace attndb::llama {

// The value of a field; empty: there is none.
std::string FieldOf(const ChatFields& fields, const std::string& name);

ChatFields TemplateFields(const TemplateText& text);
TemplateText TemplateOf(const ChatFields& fields);

// Without `op`.
ChatFields ChatInputFields(const ChatInput& input);
ChatInput ChatInputOf(const ChatFields& fields);

void PutTriggers(const std::vector<GrammarTrigger>& triggers, ChatFields* fields);
std::vector<GrammarTrigger> TriggersOf(const ChatFields& fields);

ChatFields CapsFields(const std::map<std::string, bool>& caps);
std::map<std::string, bool> CapsOf(const ChatFields& fields);

ChatFields PlanFields(const ChatPlan& plan);
ChatPlan PlanOf(const ChatFields& fields);

ChatFields ReplyFields(const ReadReply& reply);
ReadReply ReplyOf(const ChatFields& fields);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_CHAT_WIRE_H_

// Goal:   each field of a request is read, or refused with its name, what was expected and what was
//         found; no body makes more of it than a request or an error.
// Method: bodies of JSON, one field at a time: right, of the wrong type, beyond its bounds.
#include "server/openai/text_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include <string>
#include <vector>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A chat of one message, and the members `more` ("" or "\"a\": 1").
Result<TextRequest> Chat(const std::string& more) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body,
                          ParseJson(R"({"messages":[{"role":"user","content":"Hi"}])" +
                                    (more.empty() ? "" : "," + more) + "}"));
  return ParseChat(body);
}

Result<TextRequest> Completion(const std::string& more) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body,
                          ParseJson(R"({"prompt":"Hi")" + (more.empty() ? "" : "," + more) + "}"));
  return ParseCompletion(body);
}

Result<TextRequest> Messages(const std::string& messages) {
  ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(R"({"messages":)" + messages + "}"));
  return ParseChat(body);
}

// Both kinds of requests refuse `field` with `value`, naming it.
void ExpectRefused(const std::string& field, const std::string& value) {
  const std::string more = "\"" + field + "\":" + value;
  EXPECT_THAT(Chat(more), FailsWith(StatusCode::kInvalidArgument, HasSubstr("'" + field + "'")))
      << more;
  EXPECT_THAT(Completion(more),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'" + field + "'")))
      << more;
}

TEST(TextRequestTest, WhatIsNotSaidHasItsDefault) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest request, Chat(""));
  EXPECT_EQ(request.max_tokens, std::nullopt);
  EXPECT_FALSE(request.fills_window);
  EXPECT_THAT(request.stop, IsEmpty());
  EXPECT_FALSE(request.has_seed);
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.include_usage);
  EXPECT_EQ(request.plan, "");
  EXPECT_EQ(request.context, "");
  EXPECT_TRUE(request.truncate);
  EXPECT_EQ(request.sampler.temperature, kDefaultSampler.temperature);
  EXPECT_EQ(request.sampler.top_k, kDefaultSampler.top_k);
  EXPECT_EQ(request.sampler.top_p, kDefaultSampler.top_p);
  EXPECT_EQ(request.sampler.min_p, kDefaultSampler.min_p);
  EXPECT_EQ(request.sampler.repeat_penalty, kDefaultSampler.repeat_penalty);
}

TEST(TextRequestTest, NullIsNotSaid) {
  for (const char* const field : {"max_tokens",
                                  "max_completion_tokens",
                                  "n_predict",
                                  "stop",
                                  "temperature",
                                  "top_p",
                                  "min_p",
                                  "top_k",
                                  "repeat_penalty",
                                  "frequency_penalty",
                                  "presence_penalty",
                                  "seed",
                                  "stream",
                                  "stream_options",
                                  "ignore_eos",
                                  "plan",
                                  "tpot_ms",
                                  "context",
                                  "store_as",
                                  "overflow",
                                  "edits",
                                  "n",
                                  "best_of",
                                  "tools",
                                  "functions",
                                  "logprobs",
                                  "top_logprobs",
                                  "n_probs",
                                  "post_sampling_probs",
                                  "logit_bias",
                                  "grammar",
                                  "json_schema",
                                  "audio",
                                  "suffix",
                                  "echo",
                                  "response_format"}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest request,
                                Chat("\"" + std::string(field) + "\":null"));
    EXPECT_EQ(request.max_tokens, std::nullopt) << field;
    EXPECT_EQ(request.sampler.temperature, kDefaultSampler.temperature) << field;
    EXPECT_FALSE(request.has_seed) << field;
  }
}

TEST(TextRequestTest, SamplersOptionsAreRead) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const TextRequest request,
      Chat(R"("temperature":1.5,"top_p":0.5,"min_p":0.25,"top_k":7,"repeat_penalty":1.25,)"
           R"("frequency_penalty":0.5,"presence_penalty":-1.5)"));
  EXPECT_EQ(request.sampler.temperature, 1.5f);
  EXPECT_EQ(request.sampler.top_p, 0.5f);
  EXPECT_EQ(request.sampler.min_p, 0.25f);
  EXPECT_EQ(request.sampler.top_k, 7);
  EXPECT_EQ(request.sampler.repeat_penalty, 1.25f);
  EXPECT_EQ(request.sampler.frequency_penalty, 0.5f);
  EXPECT_EQ(request.sampler.presence_penalty, -1.5f);
}

TEST(TextRequestTest, BoundsAreWithinWhatIsTaken) {
  for (const char* const more :
       {R"("temperature":0,"top_p":0,"min_p":0,"top_k":0,"repeat_penalty":0.01)",
        R"("frequency_penalty":-2,"presence_penalty":-2)",
        R"("temperature":5,"top_p":1,"min_p":1,"top_k":1048576,"repeat_penalty":10)",
        R"("frequency_penalty":2,"presence_penalty":2,"max_tokens":1)",
        R"("max_tokens":2147483647)"}) {
    ATTNDB_EXPECT_OK(Chat(more)) << more;
  }
}

TEST(TextRequestTest, NumbersBeyondTheirBoundsAreRefused) {
  for (const char* const value : {"-0.1", "5.1", "1e300", "18446744073709551615"}) {
    ExpectRefused("temperature", value);
  }
  for (const char* const field : {"top_p", "min_p"}) {
    ExpectRefused(field, "-0.01");
    ExpectRefused(field, "1.01");
  }
  ExpectRefused("repeat_penalty", "0");
  ExpectRefused("repeat_penalty", "10.5");
  for (const char* const field : {"frequency_penalty", "presence_penalty"}) {
    ExpectRefused(field, "-2.1");
    ExpectRefused(field, "2.1");
  }
  for (const char* const value : {"-2147483649", "1048577", "1.5", "18446744073709551615"}) {
    ExpectRefused("top_k", value);
  }
  for (const char* const field : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    for (const char* const value :
         {"-2", "-2.0", "2147483648", "2147483648.0", "1.5", "1e300", "18446744073709551615"}) {
      ExpectRefused(field, value);
    }
  }
}

TEST(TextRequestTest, ValuesOfOtherTypesAreRefused) {
  for (const char* const field :
       {"temperature", "top_p", "min_p", "repeat_penalty", "frequency_penalty", "presence_penalty",
        "top_k", "seed", "max_tokens", "max_completion_tokens", "n_predict"}) {
    for (const char* const value : {R"("1")", "true", "[1]", "{}"}) ExpectRefused(field, value);
  }
  for (const char* const value : {"1", R"("true")", "[]"}) ExpectRefused("stream", value);
  for (const char* const field : {"plan", "context", "store_as", "overflow"}) {
    for (const char* const value : {"1", "true", "[]", "{}"}) ExpectRefused(field, value);
  }
  for (const char* const value : {"1", "true", "{}", "[1]", R"(["a",null])"}) {
    ExpectRefused("stop", value);
  }
  ExpectRefused("stream_options", "true");
}

TEST(TextRequestTest, AnErrorSaysWhatWasExpectedAndFound) {
  EXPECT_THAT(Chat(R"("top_p":7)"),
              FailsWith(StatusCode::kInvalidArgument,
                        AllOf(HasSubstr("'top_p' is 7"), HasSubstr("from 0.0 to 1.0"))));
  // What was found may be long, or cut within a character.
  for (const char* const field :
       {"plan", "stream", "top_p", "top_k", "stop", "n", "response_format", "stream_options"}) {
    EXPECT_THAT(Chat("\"" + std::string(field) + "\":[[\"" + std::string(5000, 'x') + "\"]]"),
                FailsWith(StatusCode::kInvalidArgument, ::testing::SizeIs(::testing::Lt(300))))
        << field;
  }
  std::string accents;
  for (int i = 0; i < 50; ++i) accents += "\xC3\xA4";
  for (const char* const shift : {"", "x"}) {
    const Result<TextRequest> request = Chat("\"top_p\":\"" + std::string(shift) + accents + "\"");
    ASSERT_FALSE(request.ok());
    ATTNDB_EXPECT_OK(ParseJson(ToText(Json(request.status().message()))));
  }
}

TEST(TextRequestTest, SeedsOf64BitsAreTaken) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest small, Chat(R"("seed":5)"));
  EXPECT_TRUE(small.has_seed);
  EXPECT_EQ(small.sampler.seed, 5u);
  for (const char* const seed : {"0", "-1", "9223372036854775807", "-9223372036854775808"}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest request, Chat("\"seed\":" + std::string(seed)));
    EXPECT_TRUE(request.has_seed) << seed;
  }
  ExpectRefused("seed", "9223372036854775808");
  ExpectRefused("seed", "1.5");
}

TEST(TextRequestTest, TheNewNameOfMaxTokensPrevails) {
  EXPECT_EQ(Chat(R"("max_tokens":5)")->max_tokens, 5u);
  EXPECT_EQ(Chat(R"("max_completion_tokens":7,"max_tokens":5)")->max_tokens, 7u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest fills,
                              Chat(R"("max_completion_tokens":-1,"max_tokens":5)"));
  EXPECT_TRUE(fills.fills_window);
  EXPECT_EQ(fills.max_tokens, std::nullopt);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest limited,
                              Chat(R"("max_completion_tokens":7,"max_tokens":-1)"));
  EXPECT_FALSE(limited.fills_window);
  EXPECT_EQ(limited.max_tokens, 7u);
}

TEST(TextRequestTest, TheNameThatLlamaCppGivesMaxTokensPrevailsOverAll) {
  EXPECT_EQ(Chat(R"("n_predict":5)")->max_tokens, 5u);
  EXPECT_EQ(Completion(R"("n_predict":5)")->max_tokens, 5u);
  EXPECT_EQ(Chat(R"("n_predict":7,"max_completion_tokens":6,"max_tokens":5)")->max_tokens, 7u);
  EXPECT_EQ(Chat(R"("n_predict":null,"max_tokens":5)")->max_tokens, 5u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest fills, Chat(R"("n_predict":-1,"max_tokens":5)"));
  EXPECT_TRUE(fills.fills_window);
  EXPECT_EQ(fills.max_tokens, std::nullopt);
}

TEST(TextRequestTest, NoReplyAndOneThatFillsTheWindowCanBeAskedFor) {
  for (const char* const field : {"max_tokens", "n_predict"}) {
    const std::string name = "\"" + std::string(field) + "\":";
    ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest none, Chat(name + "0"));
    EXPECT_EQ(none.max_tokens, 0u) << field;
    EXPECT_FALSE(none.fills_window) << field;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest full, Chat(name + "-1"));
    EXPECT_EQ(full.max_tokens, std::nullopt) << field;
    EXPECT_TRUE(full.fills_window) << field;
  }
}

TEST(TextRequestTest, ATopKBelowOneIsOff) {
  for (const char* const value : {"0", "-1", "-2147483648", "-1.0"}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest request, Chat("\"top_k\":" + std::string(value)));
    EXPECT_EQ(request.sampler.top_k, 0) << value;
  }
}

TEST(TextRequestTest, WholeNumbersMayHaveAPoint) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest request,
                              Chat(R"("max_tokens":40.0,"top_k":1e1,"seed":-7.0,"n":1.0)"));
  EXPECT_EQ(request.max_tokens, 40u);
  EXPECT_EQ(request.sampler.top_k, 10);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest same, Chat(R"("seed":-7)"));
  EXPECT_EQ(request.sampler.seed, same.sampler.seed);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json ids, ParseJson(R"({"prompt":[1.0,2]})"));
  EXPECT_THAT(ParseCompletion(ids)->prompt_tokens, ElementsAre(1, 2));
}

TEST(TextRequestTest, StopsAreOneTextOrSeveral) {
  EXPECT_THAT(Chat(R"("stop":"a")")->stop, ElementsAre("a"));
  EXPECT_THAT(Chat(R"("stop":["a","bc"])")->stop, ElementsAre("a", "bc"));
  EXPECT_THAT(Chat(R"("stop":[])")->stop, IsEmpty());
  const auto stops = [](size_t count, size_t bytes) {
    Json list = Json::array();
    for (size_t i = 0; i < count; ++i) list.push_back(std::string(bytes, 'x'));
    return "\"stop\":" + ToText(list);
  };
  EXPECT_EQ(Chat(stops(kMaxStops, kMaxStopBytes))->stop.size(), kMaxStops);
  EXPECT_THAT(Chat(stops(kMaxStops + 1, 1)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("at most 16 texts")));
  EXPECT_THAT(Chat(stops(1, kMaxStopBytes + 1)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("at most 256 bytes")));
}

TEST(TextRequestTest, StreamsAndTheirUsage) {
  EXPECT_TRUE(Chat(R"("stream":true)")->stream);
  EXPECT_FALSE(Chat(R"("stream":false)")->stream);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest request,
                              Chat(R"("stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_TRUE(request.include_usage);
  EXPECT_FALSE(Chat(R"("stream_options":{})")->include_usage);
  EXPECT_THAT(Chat(R"("stream_options":{"include_usage":1})"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("include_usage")));
}

TEST(TextRequestTest, RepliesMayGoOnBehindTheModelsEnd) {
  EXPECT_FALSE(Chat(R"("seed":1)")->ignore_end);
  EXPECT_TRUE(Chat(R"("ignore_eos":true)")->ignore_end);
  EXPECT_THAT(Chat(R"("ignore_eos":1)"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("ignore_eos")));
}

TEST(TextRequestTest, AnObjectiveStandsInPlaceOfAPlan) {
  EXPECT_EQ(Chat(R"("seed":1)")->tpot_ms, 0);
  EXPECT_EQ(Chat(R"("tpot_ms":12.5)")->tpot_ms, 12.5);
  EXPECT_THAT(Chat(R"("tpot_ms":-1)"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("tpot_ms")));
  EXPECT_THAT(Chat(R"("tpot_ms":5,"plan":"full")"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("leave out 'plan'")));
}

TEST(TextRequestTest, OurOwnFields) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest request,
                              Chat(R"("plan":"full","context":"manual","overflow":"refuse")"));
  EXPECT_EQ(request.plan, "full");
  EXPECT_EQ(request.context, "manual");
  EXPECT_FALSE(request.truncate);
  EXPECT_TRUE(Chat(R"("overflow":"truncate")")->truncate);
  ExpectRefused("overflow", R"("shift")");
  ExpectRefused("overflow", R"("")");
  EXPECT_EQ(request.edits, std::nullopt);
  EXPECT_EQ(Chat(R"("edits":"cut")")->edits, Edits::kCut);
  EXPECT_EQ(Chat(R"("edits":"exact")")->edits, Edits::kExact);
  EXPECT_EQ(Chat(R"("edits":null)")->edits, std::nullopt);
  ExpectRefused("edits", R"("drop")");
  ExpectRefused("edits", "true");
}

TEST(TextRequestTest, AHeaderNamesTheContextThatTheBodyDoesNot) {
  const auto taken = [](const std::string& body, const std::string& header) {
    Result<TextRequest> request = Chat(body);
    const Status status = request.ok() ? TakeContextHeader(header, &*request) : request.status();
    return status.ok() ? request->context : status.ToString();
  };
  EXPECT_EQ(taken("", "manual"), "manual");
  EXPECT_EQ(taken(R"("context":null)", "manual"), "manual");
  EXPECT_EQ(taken(R"("context":"")", "m\xC3\xA4nual"), "m\xC3\xA4nual");
  EXPECT_EQ(taken(R"("context":"manual")", "manual"), "manual");
  EXPECT_EQ(taken(R"("context":"manual")", ""), "manual");
  EXPECT_EQ(taken("", ""), "");
  EXPECT_THAT(taken(R"("context":"manual")", "Manual"),
              AllOf(HasSubstr(R"("manual")"), HasSubstr(R"("Manual")"), HasSubstr("name one")));
  EXPECT_THAT(taken("", "m\xE4nual"), HasSubstr("X-Attndb-Context is not UTF-8"));
}

TEST(TextRequestTest, WhatCantBeHonouredIsRefusedByName) {
  ExpectRefused("functions", R"([{"name":"f"}])");
  ExpectRefused("audio", R"({"voice":"alloy"})");
  ExpectRefused("suffix", R"("end")");
  ExpectRefused("echo", "true");
}

TEST(TextRequestTest, AsManyChoicesAsAPassTakes) {
  EXPECT_EQ(Chat("")->num_choices, 1u);
  EXPECT_EQ(Chat(R"("n":3)")->num_choices, 3u);
  EXPECT_EQ(Completion(R"("n":64.0,"best_of":64)")->num_choices, 64u);
  for (const char* const value : {"0", "65", "-1", "1.5", "true", R"("1")", "[1]"}) {
    ExpectRefused("n", value);
  }
}

TEST(TextRequestTest, AllChoicesThatAreMadeAreGiven) {
  for (const char* const value : {"2", "0", "true", R"("1")", "[1]"}) {
    ExpectRefused("best_of", value);
  }
  EXPECT_THAT(Completion(R"("n":2,"best_of":3)"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'best_of' is 3, expected")));
}

TEST(TextRequestTest, AChatsLogprobsAreAskedForWithAFlag) {
  EXPECT_EQ(Chat("\"seed\":1")->logprobs, LogprobForm::kNone);
  EXPECT_EQ(Chat(R"("logprobs":false,"top_logprobs":0)")->logprobs, LogprobForm::kNone);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest bare, Chat(R"("logprobs":true)"));
  EXPECT_EQ(bare.logprobs, LogprobForm::kContent);
  EXPECT_EQ(bare.chances.num_likeliest, 0u);
  EXPECT_FALSE(bare.chances.after_samplers);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest most,
                              Chat(R"("logprobs":true,"top_logprobs":20.0)"));
  EXPECT_EQ(most.chances.num_likeliest, 20u);
  const auto refused = [](const std::string& more, const std::string& says) {
    EXPECT_THAT(Chat(more), FailsWith(StatusCode::kInvalidArgument, HasSubstr(says))) << more;
  };
  refused(R"("logprobs":5)", "'logprobs' is 5, expected true or false");
  refused(R"("top_logprobs":2)", R"('top_logprobs' needs "logprobs": true)");
  for (const char* const value : {"21", "-1", "1.5", "true", R"("2")", "[2]"}) {
    refused(R"("logprobs":true,"top_logprobs":)" + std::string(value), "'top_logprobs'");
  }
}

TEST(TextRequestTest, ACompletionsLogprobsAreANumber) {
  EXPECT_EQ(Completion(R"("logprobs":false,"top_logprobs":0)")->logprobs, LogprobForm::kNone);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest none, Completion(R"("logprobs":0)"));
  EXPECT_EQ(none.logprobs, LogprobForm::kLegacy);
  EXPECT_EQ(none.chances.num_likeliest, 0u);
  EXPECT_EQ(Completion(R"("logprobs":20)")->chances.num_likeliest, 20u);
  for (const char* const value : {"true", "21", "-1", "0.5", R"("5")", "[]"}) {
    EXPECT_THAT(Completion("\"logprobs\":" + std::string(value)),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("'logprobs'")))
        << value;
  }
  EXPECT_THAT(Completion(R"("logprobs":5,"top_logprobs":5)"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'top_logprobs'")));
}

TEST(TextRequestTest, ProbabilitiesAreAskedForAsOfLlamaCppsServer) {
  for (const auto& parse : {Chat, Completion}) {
    EXPECT_EQ(parse(R"("n_probs":0,"post_sampling_probs":true)")->logprobs, LogprobForm::kNone);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest before, parse(R"("n_probs":7)"));
    EXPECT_EQ(before.logprobs, LogprobForm::kContent);
    EXPECT_EQ(before.chances.num_likeliest, 7u);
    EXPECT_FALSE(before.chances.after_samplers);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest after,
                                parse(R"("n_probs":7,"post_sampling_probs":true)"));
    EXPECT_EQ(after.logprobs, LogprobForm::kProbs);
    EXPECT_TRUE(after.chances.after_samplers);
  }
  for (const char* const value : {"21", "-1", "0.5", "true", R"("5")"}) {
    ExpectRefused("n_probs", value);
  }
  for (const char* const value : {"1", R"("yes")", "[]"}) {
    ExpectRefused("post_sampling_probs", value);
  }
  // OpenAI's field comes first.
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const TextRequest both,
      Chat(R"("logprobs":true,"top_logprobs":3,"n_probs":7,"post_sampling_probs":true)"));
  EXPECT_EQ(both.logprobs, LogprobForm::kProbs);
  EXPECT_EQ(both.chances.num_likeliest, 3u);
  EXPECT_EQ(Completion(R"("logprobs":3,"n_probs":7)")->logprobs, LogprobForm::kLegacy);
}

TEST(TextRequestTest, BiasesAreRead) {
  EXPECT_THAT(Chat("\"seed\":1")->logit_bias, IsEmpty());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest request,
                              Chat(R"("logit_bias":{"50256":-100,"word":2})"));
  ASSERT_EQ(request.logit_bias.size(), 2u);
  EXPECT_EQ(request.logit_bias[0].token, 50256);
  EXPECT_EQ(request.logit_bias[1].text, "word");
  EXPECT_EQ(Completion(R"("logit_bias":[[1,-1]])")->logit_bias.size(), 1u);
  ExpectRefused("logit_bias", "5");
  ExpectRefused("logit_bias", R"({"":1})");
}

TEST(TextRequestTest, FieldsThatAskForNothingAreTaken) {
  for (const char* const more :
       {R"("tools":[],"functions":[],"logprobs":false,"top_logprobs":0,"logit_bias":{})",
        R"("n_probs":0,"grammar":"","json_schema":null)",
        R"("suffix":"","echo":false,"n":1,"best_of":1)"}) {
    ATTNDB_EXPECT_OK(Chat(more)) << more;
    ATTNDB_EXPECT_OK(Completion(more)) << more;
  }
}

TEST(TextRequestTest, UnknownFieldsAreIgnored) {
  for (const char* const more :
       {R"("user":"x","store":false,"metadata":{"a":"b"},"cache_prompt":true,"":1)",
        R"("model":"any","tool_choice":"none","parallel_tool_calls":true)",
        R"("reasoning_control":true,"strict":true)"}) {
    ATTNDB_EXPECT_OK(Chat(more)) << more;
    ATTNDB_EXPECT_OK(Completion(more)) << more;
  }
}

TEST(TextRequestTest, AChatHasMessages) {
  for (const char* const messages : {"[]", "{}", "null", R"("Hi")", "1"}) {
    EXPECT_THAT(Messages(messages),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("'messages'")))
        << messages;
  }
  EXPECT_THAT(ParseChat(Json::object()),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'messages'")));
  const auto many = [](size_t count) {
    Json list = Json::array();
    for (size_t i = 0; i < count; ++i) list.push_back({{"role", "user"}, {"content", ""}});
    Json body = Json::object();
    body["messages"] = std::move(list);
    return body;
  };
  ATTNDB_EXPECT_OK(ParseChat(many(kMaxMessages)));
  EXPECT_THAT(ParseChat(many(kMaxMessages + 1)),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("1 to 16384 messages")));
}

TEST(TextRequestTest, ACompletionHasNoTools) {
  EXPECT_THAT(Completion(R"("tools":[{"type":"function","function":{"name":"f"}}])"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'tools' is a field of chats")));
}

TEST(TextRequestTest, ACompletionMayHaveAGrammarOrASchema) {
  EXPECT_EQ(Completion(R"("grammar":"root ::= [a]")")->grammar, "root ::= [a]");
  EXPECT_EQ(Completion(R"("json_schema":{"const":"42"})")->chat.json_schema, R"({"const":"42"})");
}

TEST(TextRequestTest, ACompletionHasAPrompt) {
  const auto prompt = [](const std::string& text) -> Result<TextRequest> {
    ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(R"({"prompt":)" + text + "}"));
    return ParseCompletion(body);
  };
  EXPECT_EQ(prompt(R"("once")")->prompt, "once");
  EXPECT_EQ(prompt(R"(["once"])")->prompt, "once");
  for (const char* const text : {R"("")", R"([""])", "[]", "{}", "5", "null"}) {
    EXPECT_THAT(prompt(text), FailsWith(StatusCode::kInvalidArgument, HasSubstr("'prompt'")))
        << text;
  }
  EXPECT_THAT(ParseCompletion(Json::object()),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'prompt'")));
}

TEST(TextRequestTest, APromptMayBeIds) {
  const auto prompt = [](const std::string& ids) -> Result<TextRequest> {
    ATTNDB_ASSIGN_OR_RETURN(const Json body, ParseJson(R"({"prompt":)" + ids + "}"));
    return ParseCompletion(body);
  };
  ATTNDB_ASSERT_OK_AND_ASSIGN(const TextRequest request, prompt("[3,0,2147483647]"));
  EXPECT_THAT(request.prompt_tokens, ElementsAre(3, 0, 2147483647));
  EXPECT_EQ(request.prompt, "");
  EXPECT_THAT(prompt("[7]")->prompt_tokens, ElementsAre(7)) << "a list of one text is that text";
  EXPECT_THAT(prompt(R"("a")")->prompt_tokens, IsEmpty());
  for (const char* const ids : {"[-1]", "[1.5]", "[2147483648]", "[null]", "[true]", "[{}]"}) {
    EXPECT_THAT(prompt(ids), FailsWith(StatusCode::kInvalidArgument, HasSubstr("'prompt[0]'")))
        << ids;
  }
  for (const char* const ids : {R"([1,"a"])", "[1,[2]]"}) {
    EXPECT_THAT(prompt(ids), FailsWith(StatusCode::kInvalidArgument, HasSubstr("'prompt[1]'")))
        << ids;
  }
  for (const char* const several : {R"(["a","b"])", R"(["a",1])", "[[1]]", "[[1,2],[3]]", "[[]]"}) {
    EXPECT_THAT(prompt(several),
                FailsWith(StatusCode::kInvalidArgument,
                          AllOf(HasSubstr("'prompt' is ["), HasSubstr("one prompt a request"))))
        << several;
  }
}

TEST(TokenizeRequestTest, AFieldIsReadOrRefusedByName) {
  const auto parse = [](const std::string& body) -> Result<TokenizeRequest> {
    ATTNDB_ASSIGN_OR_RETURN(const Json json, ParseJson(body));
    return ParseTokenize(json);
  };
  EXPECT_EQ(parse(R"({"content":"a"})")->content, "a");
  EXPECT_FALSE(parse(R"({"content":"a"})")->add_special);
  EXPECT_FALSE(parse(R"({"content":"a"})")->parse_special);
  EXPECT_TRUE(parse(R"({"content":"","add_special":true})")->add_special);
  EXPECT_TRUE(parse(R"({"content":"","parse_special":true})")->parse_special);
  EXPECT_FALSE(parse(R"({"content":"a"})")->with_pieces);
  EXPECT_TRUE(parse(R"({"content":"","with_pieces":true})")->with_pieces);
  const auto refused = [&](const std::string& body, const std::string& field) {
    EXPECT_THAT(parse(body), FailsWith(StatusCode::kInvalidArgument, HasSubstr(field))) << body;
  };
  for (const char* const body : {"{}", R"({"content":null})", R"({"content":5})"}) {
    refused(body, "'content'");
  }
  refused(R"({"content":"a","add_special":5})", "'add_special'");
  refused(R"({"content":"a","parse_special":"x"})", "'parse_special'");
  refused(R"({"content":"a","with_pieces":1})", "'with_pieces'");
}

TEST(TextRequestTest, ABodyIsAnObject) {
  for (const Json& body : {Json(), Json(1), Json("x"), Json::array(), Json(true)}) {
    EXPECT_THAT(ParseChat(body),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("no JSON object")));
    EXPECT_THAT(ParseCompletion(body),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("no JSON object")));
    EXPECT_THAT(ParseTokenize(body),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("no JSON object")));
  }
}

}  // namespace
}  // namespace attndb::server

/** Program of the thread that writes the prompts of a coordinator. */
import { continuationPrompt } from "../../shared/prompts/continuation.ts";
import { tokenizer } from "../../shared/prompts/tokens.ts";
import { answerCalls } from "../../shared/runtime/process/call-answers.ts";
import { ownMemory } from "../../shared/runtime/process/memory-release.ts";

// Loaded before the first prompt asks for it.
tokenizer();
// The load leaves as much garbage as it keeps, and V8 collects only while a thread allocates.
ownMemory().collect();
answerCalls(continuationPrompt);

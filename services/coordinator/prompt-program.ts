/** Program of the thread that writes the prompts of a coordinator. */
import { continuationPrompt } from "../../shared/prompts/continuation.ts";
import { tokenizer } from "../../shared/prompts/tokens.ts";
import { answerCalls } from "../../shared/runtime/process/call-answers.ts";

// Loaded before the first prompt asks for it.
tokenizer();
answerCalls(continuationPrompt);

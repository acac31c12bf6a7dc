// Program of a thread that needs a prompt. It tells whether it has loaded the tokenizer: after a prompt of another thread, and after one of its own.

import { createRequire } from "node:module";
import { parentPort } from "node:worker_threads";
import { PromptThread } from "../../../services/coordinator/prompt-thread.ts";
import { continuationPrompt } from "../../../shared/prompts/continuation.ts";
import { usual } from "../../shared/prompts/checkpoints.ts";

const { cache, resolve } = createRequire(import.meta.url);
const tokenizerLoaded = () => resolve("gpt-tokenizer/encoding/o200k_base") in cache;

const prompts = new PromptThread();
// The thread of the prompts does not keep this one alive.
parentPort!.ref();
await prompts.render({ checkpoint: usual });
const loadedByCall = tokenizerLoaded();
await prompts.close();
continuationPrompt({ checkpoint: usual });
parentPort!.postMessage({ loadedByCall, loadedInPlace: tokenizerLoaded() });
parentPort!.close();

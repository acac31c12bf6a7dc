/** The answers of a thread to the calls of its `CallThread`. */
import { parentPort } from "node:worker_threads";
import { type ErrorBody, FleetError } from "../../protocol/errors.ts";

export type CallAnswer =
  | { readonly result: unknown }
  /** Between threads, an error object keeps only its text, and a FleetError has more. */
  | { readonly refusal: ErrorBody }
  | { readonly error: unknown };

export function answerCalls<Call>(answer: (call: Call) => unknown): void {
  parentPort!.on("message", (call: Call) => parentPort!.postMessage(answerTo(answer, call)));
}

function answerTo<Call>(answer: (call: Call) => unknown, call: Call): CallAnswer {
  try {
    return { result: answer(call) };
  } catch (error) {
    return error instanceof FleetError ? { refusal: error.toBody() } : { error };
  }
}

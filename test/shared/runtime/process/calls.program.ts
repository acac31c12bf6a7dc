/** The program of a thread that answers calls, refuses them, fails them, or dies of them. */
import { invalid } from "../../../../shared/protocol/errors.ts";
import { answerCalls } from "../../../../shared/runtime/process/call-answers.ts";

export type TestCall = "refuse" | "fail" | "exit" | "defect" | { readonly echo: unknown };

answerCalls((call: TestCall) => {
  switch (call) {
    case "refuse":
      throw invalid("budget.tokens", "at least 10", 1);
    case "fail":
      throw new RangeError("out of range");
    case "exit":
      return process.exit(3);
    case "defect":
      // Cannot be sent to another thread, so it ends this one.
      return () => {};
    default:
      return call.echo;
  }
});

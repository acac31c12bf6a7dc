/** Commands served on a real bus in place of a writer, with the answers that a test chooses. */
import type { Bus, Headers } from "../../../../shared/bus/bus.ts";
import { SUBJECTS } from "../../../../shared/protocol/subjects.ts";
import type { Stop } from "../../../../shared/runtime/process/service.ts";

export interface SentCommand {
  readonly command_id: string;
  readonly after?: string;
}

const encoded = (value: object) => ({ body: Buffer.from(JSON.stringify(value)) });

/** `text`: the command as it was sent. */
export function serveCommands(
  bus: Bus,
  answer: (command: SentCommand, sent: { readonly text: string; readonly headers: Headers }) => object,
): Promise<Stop> {
  return bus.serve(
    SUBJECTS.everyCommand,
    {
      queue: "writer",
      concurrencyMax: 100,
      waitMsMax: 10_000,
      isOwnReply: () => true,
      dropped: () => {},
      overload: () => encoded({}),
      failed: () => encoded({}),
    },
    async ({ body, headers }) => {
      const text = Buffer.from(body).toString();
      return encoded(answer(JSON.parse(text) as SentCommand, { text, headers }));
    },
  );
}

/** The answer to a command that created the first checkpoint of a task. */
export const committedAnswer = (command_id: string, task_id: string) => ({
  ...{ status: "committed", command_id, task_id, checkpoint_id: command_id, version: 1, seq: 1 },
  ...{ hash: "", committed_at: "", position: "", replayed: false },
});

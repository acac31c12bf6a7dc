/** An answer of a newer version of the messages, on a real bus: the SDK refuses it instead of a guess at its meaning. */
import { expect, onTestFinished, test } from "vitest";
import { connectBus } from "../../../shared/bus/connection.ts";
import { HEADERS, QUEUES, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { startNats, testLog } from "../../harness/processes/nats.ts";
import { connectClient } from "../../harness/processes/services.ts";

test("an answer of a newer version is refused with UNSUPPORTED_VERSION, at once", async () => {
  const nats = await startNats();
  const bus = await connectBus({ url: nats.url, name: "newer", identity: "newer", log: testLog });
  const client = await connectClient({ busUrl: nats.url, storeUrl: "" }, "reader-1");
  onTestFinished(async () => {
    await client.close();
    await bus.close();
    await nats.stop();
  });
  let answers = 0;
  const body = Buffer.from(JSON.stringify({ status: "ok", result: { task: { another: "form" } } }));
  await bus.serve(
    SUBJECTS.everyQuery,
    {
      ...{ queue: QUEUES.reader, concurrencyMax: 10, waitMsMax: 10_000 },
      isOwnReply: () => true,
      dropped: () => {},
      overload: () => ({ body }),
      failed: () => ({ body }),
    },
    async () => {
      answers += 1;
      return { body, headers: { [HEADERS.protocol]: "2" } };
    },
  );
  await expect(client.getTask("task-1")).rejects.toMatchObject({
    code: "UNSUPPORTED_VERSION",
    fields: [{ path: HEADERS.protocol, expected: "at most 1", got: "2" }],
  });
  expect(answers).toBe(1);
});

/** Heartbeats of a client, recorded at a real server. */
import { expect, onTestFinished, test } from "vitest";
import { connectBus } from "../../../shared/bus/connection.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { connect } from "../../../shared/sdk/sdk.ts";
import { startNats, testLog } from "../../harness/processes/nats.ts";

/** Longer than the test, so that no heartbeat is due by time after the first one. */
const NEVER_MS = 600_000;

test("a heartbeat is sent at once when the connection comes up again", async () => {
  const nats = await startNats();
  onTestFinished(() => nats.stop());
  const bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
  onTestFinished(() => bus.close());
  const seen: string[] = [];
  const listening = await bus.subscribe(SUBJECTS.everyHeartbeat, ({ body }) => {
    seen.push(JSON.parse(Buffer.from(body).toString()).state);
  });
  onTestFinished(listening);
  const client = await connect({ url: nats.url, agentId: "agent", env: {} });
  onTestFinished(() => client.close());
  const heartbeat = client.startHeartbeat({ agentType: "qa", state: "working" }, { everyMs: NEVER_MS });
  onTestFinished(() => heartbeat.stop());
  await expect.poll(() => seen.length).toBeGreaterThan(0);
  // The listener must be back before the heartbeat: the two connections come up in any order.
  for (let restarts = 1; ; restarts += 1) {
    const before = seen.length;
    const isBack = new Promise<void>((resolve) => {
      const forget = bus.onStatus((status) => {
        if (status !== "connected") return;
        forget();
        resolve();
      });
    });
    await nats.restart();
    await isBack;
    const isSeen = await expect
      .poll(() => seen.length, { timeout: 2_000 })
      .toBeGreaterThan(before)
      .then(
        () => true,
        () => false,
      );
    if (isSeen) break;
    expect(restarts, "restarts without a heartbeat").toBeLessThan(8);
  }
  await heartbeat.stop();
  await expect.poll(() => seen.at(-1)).toBe("stopping");
}, 60_000);

/** Requests with an inbox of their own: those that a stream may answer, and those with several answers. */
import { expect } from "vitest";
import type { Message, Outgoing } from "../../../shared/bus/bus.ts";
import { STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { type BusBench, type ContractCases, failureKind, outText, SERVED, textIn } from "./bench.ts";

const OFFERED = "offered";
let counter = 0;
const offer = ({ bus }: BusBench, type: string, value: string) =>
  bus.publishDurable(SUBJECTS.offer("default", type, `task-${value}`), outText(value), {
    messageId: `direct-${++counter}`,
    timeoutMs: 60_000,
  });
const consumer = (type: string) => ({
  stream: STREAMS.offers,
  durable: `direct-${type}`,
  filters: [SUBJECTS.offersOf("default", type)],
  maxAckPending: 2,
  ackWaitMs: 20_000,
});

/** A service that has the stream answer its caller, as the reader does with offers. */
async function serveOffers(bench: BusBench, type: string, waitMs: number) {
  return bench.service.serve(`t.next.${type}`, SERVED, async ({ replyTo }) => {
    await bench.service.deliverNext(consumer(type), { inbox: replyTo, waitMs });
    return undefined;
  });
}

const next = ({ bus }: BusBench, type: string, signal?: AbortSignal) =>
  bus.requestDirect(`t.next.${type}`, outText(""), { timeoutMs: 60_000, signal });

export const directRequestCases: ContractCases = {
  "a stream answers with its next message, which is settled by its reply address": async (bench) => {
    const stop = await serveOffers(bench, OFFERED, 10_000);
    await offer(bench, OFFERED, "a");
    const first = await next(bench, OFFERED);
    expect([first.status, textIn(first.message)]).toEqual([0, "a"]);
    expect(first.message.subject).toBe(SUBJECTS.offer("default", OFFERED, "task-a"));
    const waiting = next(bench, OFFERED);
    const settle = (kind: "ack" | "working", delivery: string | undefined) =>
      bench.bus.settleDelivery(delivery!, { kind }, { timeoutMs: 60_000 });
    await settle("working", first.message.replyTo);
    await bench.bus.settleDelivery(
      first.message.replyTo!,
      { kind: "giveBack", pauseMs: 100 },
      { timeoutMs: 60_000 },
    );
    const again = await waiting;
    expect([textIn(again.message), again.message.replyTo?.split(".")[4]]).toEqual(["a", "2"]);
    await settle("ack", again.message.replyTo);
    // The first delivery was settled with the second.
    await settle("ack", first.message.replyTo);
    expect(await bench.bus.stream(STREAMS.offers).count(SUBJECTS.offersOf("default", OFFERED))).toBe(0);
    await stop();
  },

  "a message that is declared dead is not delivered again": async (bench) => {
    const stop = await serveOffers(bench, "dead", 1_000);
    await offer(bench, "dead", "a");
    const { message } = await next(bench, "dead");
    await bench.bus.settleDelivery(message.replyTo!, { kind: "dead" }, { timeoutMs: 60_000 });
    expect((await next(bench, "dead")).status).toBe(408);
    await stop();
  },

  "the end of the wait is a status, and a settlement of no consumer has no responder": async (bench) => {
    const stop = await serveOffers(bench, "none", 200);
    const answer = await next(bench, "none");
    expect([answer.status, textIn(answer.message), answer.reason]).toEqual([408, "", "Request Timeout"]);
    const unknown = `$JS.ACK.${STREAMS.offers}.unknown.1.1.1.1.0`;
    const settled = bench.bus.settleDelivery(unknown, { kind: "ack" }, { timeoutMs: 60_000 });
    expect(await failureKind(settled)).toBe("no_responders");
    await stop();
  },

  "a message goes to no caller that has aborted": async (bench) => {
    const stop = await serveOffers(bench, "aborted", 20_000);
    const abort = new AbortController();
    const reason = new Error("the caller aborted");
    const asked = next(bench, "aborted", abort.signal);
    // The answer to this request follows the first pull request.
    const view = bench.service.stream(STREAMS.offers);
    await view.state();
    abort.abort(reason);
    await expect(asked).rejects.toBe(reason);
    await offer(bench, "aborted", "a");
    expect(textIn((await next(bench, "aborted")).message)).toBe("a");
    await stop();
  },

  "a direct request without a service, without an answer, or on a closed bus fails": async (bench) => {
    const ask = (subject: string, timeoutMs: number) =>
      failureKind(bench.bus.requestDirect(subject, outText(""), { timeoutMs }));
    expect(await ask("t.unserved", 20_000)).toBe("no_responders");
    const stop = await bench.service.subscribe("t.mute", () => {});
    expect(await ask("t.mute", 100)).toBe("timeout");
    await stop();
    const closed = await bench.connect("closed");
    await closed.close();
    const asked = closed.requestDirect("t.mute", outText(""), { timeoutMs: 100 });
    expect(await failureKind(asked)).toBe("closed");
  },

  "answers are gathered from every service, until there are enough or the time is over": async (bench) => {
    const services = await Promise.all(["one", "two", "three"].map((name) => bench.connect(name)));
    const answering = (name: string) => async (): Promise<Outgoing> => outText(name);
    const names = ["one", "two", "three"];
    await Promise.all(
      services.map((bus, i) => bus.serve("t.gather", { ...SERVED, queue: names[i]! }, answering(names[i]!))),
    );
    const gathered = async (timeoutMs: number, isEnough: (found: string[]) => boolean) => {
      const found: string[] = [];
      await bench.bus.gather("t.gather", outText(""), { timeoutMs }, (answer: Message) => {
        found.push(textIn(answer));
        return isEnough(found);
      });
      return found.toSorted();
    };
    expect(await gathered(20_000, ({ length }) => length === 3)).toEqual(names.toSorted());
    expect(await gathered(20_000, () => true)).toHaveLength(1);
    // Those that have come when the time is over.
    expect(names).toEqual(expect.arrayContaining(await gathered(500, () => false)));
    const nothing = bench.bus.gather("t.unserved", outText(""), { timeoutMs: 60_000 }, () => true);
    expect(await failureKind(nothing)).toBe("no_responders");
  },
};

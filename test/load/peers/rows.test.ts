import { expect, test } from "vitest";
import { type PeerFigures, peerRows, peersIn, ratioRow } from "./rows.ts";

const own: PeerFigures = {
  ...{ name: "Fleet", promise: "durable; one owner", perSecond: 4_500 },
  write: { p50: 200, p99: 300 },
  latest: { p50: 0.4, p99: 0.9 },
};
const peer: PeerFigures = {
  ...{ name: "a saver 1.0, synced", promise: "durable; no owner", perSecond: 1_500 },
  write: { p50: 400, p99: 500 },
  latest: { p50: 1, p99: 2 },
};

test("the figures and the promise of each peer are read from the rows that were written", () => {
  const rows = [...peerRows(own), ...peerRows(peer), ratioRow(own, peer, true)];
  expect(peersIn(rows)).toEqual([own, peer]);
});

test("a stored row that is missing is reported with its peer", () => {
  expect(() => peersIn(peerRows(peer).slice(0, 2))).toThrow("no write, p99 of a saver 1.0, synced");
});

test("only a peer with a comparable promise is judged", () => {
  expect(ratioRow(own, peer, true)).toMatchObject({ value: 3, unit: "×", met: "aim" });
  expect(ratioRow(own, { ...peer, perSecond: 4_000 }, true).met).toBe("required missed");
  expect(ratioRow(own, peer, false).met).toBeNull();
});

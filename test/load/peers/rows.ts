// The rows of the comparison. The benchmark writes them and the report reads them.

import { type Row, row, TARGETS } from "../measure/targets.ts";

export interface PeerFigures {
  readonly name: string;
  /** What an acknowledged write promises, in plain words. */
  readonly promise: string;
  readonly perSecond: number;
  /** In ms, of writes with many in flight and of reads one at a time. */
  readonly write: { readonly p50: number; readonly p99: number };
  readonly latest: { readonly p50: number; readonly p99: number };
}

const COMMITS = /^(.+): commits; promise: (.+)$/;

export function peerRows({ name, promise, perSecond, write, latest }: PeerFigures): Row[] {
  return [
    row(`${name}: commits; promise: ${promise}`, perSecond, "/s"),
    row(`${name}: write, p50`, write.p50, "ms"),
    row(`${name}: write, p99`, write.p99, "ms"),
    row(`${name}: latest, one at a time, p50`, latest.p50, "ms"),
    row(`${name}: latest, one at a time, p99`, latest.p99, "ms"),
  ];
}

export function ratioRow(own: PeerFigures, peer: PeerFigures, isJudged: boolean): Row {
  const what = `commits of ${own.name} to those of ${peer.name}`;
  return row(what, own.perSecond / peer.perSecond, "×", isJudged ? TARGETS.postgres_saver : undefined);
}

/** The figures of all peers in stored rows, in their order. */
export function peersIn(rows: readonly Row[]): PeerFigures[] {
  return rows.flatMap(({ what, value }) => {
    const [, name = "", promise = ""] = COMMITS.exec(what) ?? [];
    if (name === "" || value === null) return [];
    const of = (figure: string): number => {
      const found = rows.find((one) => one.what === `${name}: ${figure}`)?.value;
      if (found == null) throw new Error(`a stored run has no ${figure} of ${name}`);
      return found;
    };
    return [
      {
        ...{ name, promise, perSecond: value },
        write: { p50: of("write, p50"), p99: of("write, p99") },
        latest: { p50: of("latest, one at a time, p50"), p99: of("latest, one at a time, p99") },
      },
    ];
  });
}

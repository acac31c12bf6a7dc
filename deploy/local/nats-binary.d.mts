// The types of nats-binary.mjs, which is plain JavaScript because it runs before TypeScript is available.

export type Environment = Record<string, string | undefined>;
export type NatsServer = { path: string; version: string };

export function ownNatsPath(root: string): string;
export function findNatsServer(where: { root: string; env?: Environment }): NatsServer | { problem: string };
export function probe(path: string): NatsServer | { problem: string };

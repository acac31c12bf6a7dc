export const OLDEST_NODE: string;
export const OLDEST_NATS: string;
export function isAtLeast(version: string, oldest: string): boolean;

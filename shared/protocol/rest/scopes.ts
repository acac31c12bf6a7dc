/**
 * Scopes of the HTTP API: what a caller may use of that which its role permits. A scope is the tag of operations with `read` (GET) or
 * `write`, such as `tasks:read`, or the id of one operation, such as `createCheckpoint`.
 */
import { z } from "zod";
import { REST_TAGS, type RestRoute } from "./route.ts";
import { REST_ROUTES } from "./routes.ts";

export const SCOPES: readonly string[] = [
  ...Object.keys(REST_TAGS).flatMap((tag) => [`${tag}:read`, `${tag}:write`]),
  ...REST_ROUTES.map(({ id }) => id),
];
const KNOWN = new Set(SCOPES);

export const isScope = (text: string): boolean => KNOWN.has(text);

export const scopeSchema = z
  .string()
  .refine(isScope, "`TAG:read`, `TAG:write` or the id of an operation, with the tags and ids of /api/docs");

/** The scope of all operations with the tag that read, or that write. */
export const scopeOf = ({ tag, method }: Pick<RestRoute, "tag" | "method">): string =>
  `${tag}:${method === "GET" ? "read" : "write"}`;

/** `scopes`: null for a caller that may use all operations. Every caller may ask who it is. */
export function isInScope(route: RestRoute, scopes: readonly string[] | null): boolean {
  return (
    scopes === null ||
    route.act.kind === "caller" ||
    scopes.includes(route.id) ||
    scopes.includes(scopeOf(route))
  );
}

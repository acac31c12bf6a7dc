export function pinnedNode(root: string): string;
export function packagesReady(root: string): boolean;

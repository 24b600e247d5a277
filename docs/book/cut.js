// Marks tables, blocks of code and plots of which a part is hidden, and lets the keyboard scroll them.
const frames = document.querySelectorAll(".table-wrapper, pre > code, p:has(img[src$='.svg'])");

function mark(frame) {
    const hidden = frame.scrollWidth - frame.clientWidth;
    frame.classList.toggle("cut", hidden - frame.scrollLeft > 1);
    if (hidden > 1) {
        frame.tabIndex = 0;
    } else {
        frame.removeAttribute("tabindex");
    }
}

const observer = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));
for (const frame of frames) {
    observer.observe(frame);
    frame.addEventListener("scroll", () => mark(frame), { passive: true });
    // Without this, mdBook would turn the page.
    frame.addEventListener("keydown", (event) => event.stopPropagation());
}

// A plot opens alone, in its own size. mdBook's frame around it would show it smaller.
for (const frame of document.querySelectorAll("label:has(> img[src$='.svg'])")) {
    const image = frame.querySelector("img");
    const link = document.createElement("a");
    link.href = image.src;
    link.append(image);
    frame.replaceWith(link);
}

// The default theme in the colours of the report pages, without its web font: systems have one. Tables scroll inside their column.
import DefaultTheme from 'vitepress/theme-without-fonts'
import './custom.css'

export default DefaultTheme
